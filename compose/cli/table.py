"""What commands found: a table, or lines for each row where that is too wide. Nothing is left out, no id is in two."""

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
        indent = " " * _GAP
        told = ", ".join(_on_one_line(f"{name}: {text}", width - _GAP) for name, text in named if text)
        lines = textwrap.wrap(
            told,
            width,
            initial_indent=indent,
            subsequent_indent=indent,
            break_on_hyphens=False,
            break_long_words=False,
        )
        found += [first, *(line.replace(_WITH, " ") for line in lines)]
    return found


def _on_one_line(text: str, width: int) -> str:
    """A name and its value; a sentence that no line holds is wrapped between its words."""
    return text.replace(" ", _WITH) if len(text) < width else text
