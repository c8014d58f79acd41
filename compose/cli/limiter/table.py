"""What commands about the limiter found: a table, or lines for each row where that is too wide. Nothing is left out."""

from __future__ import annotations

import textwrap
from typing import Any, Final

_GAP: Final = 2  # between columns
_WITH: Final = "\xa0"  # a name and its value are on one line


def print_table(rows: list[dict[str, Any]], columns: tuple[str, ...], *, none: str = "no policy") -> None:
    """What a command found, for people."""
    from rich.console import Console  # noqa: PLC0415

    if not rows:
        print(none)
        return
    width = Console().width
    texts = [[str(row[column]) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    fits = sum(widths) + _GAP * (len(widths) - 1) <= width
    print("\n".join(_table(columns, texts, widths) if fits else _lines(columns, texts, width)))


def _table(columns: tuple[str, ...], texts: list[list[str]], widths: list[int]) -> list[str]:
    gap = " " * _GAP
    return [
        gap.join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in ([*columns], *texts)
    ]


def _lines(columns: tuple[str, ...], texts: list[list[str]], width: int) -> list[str]:
    """The first column of a row, which names it, and below it the others with their names."""
    found: list[str] = []
    for first, *others in texts:
        named = zip(columns[1:], others, strict=True)
        told = ", ".join(f"{name}: {text}".replace(" ", _WITH) for name, text in named if text)
        indent = " " * _GAP
        lines = textwrap.wrap(told, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
        found += [first, *(line.replace(_WITH, " ") for line in lines)]
    return found
