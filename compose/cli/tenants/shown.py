"""What is known of tenants as text for a terminal: no line is longer than 80 columns, and no id is cut. Pure.

Texts that strangers wrote hold nothing that a terminal would obey.
"""

from __future__ import annotations

import json
import re
import textwrap
from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len, chop_cells, set_cell_size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WIDTH: Final = 80  # cells of the terminal: a wide character takes two
_GAP: Final = "  "
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?(\.\d+)?Z")


def cell(value: object) -> str:
    """One value: instants to the minute, in UTC."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return ", ".join(map(cell, value)) or "-"
    text = _printable(json.dumps(value) if isinstance(value, dict) else str(value))
    return f"{text[:10]} {text[11:16]}" if _INSTANT.fullmatch(text) else text


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[str]:
    """A line of names, and one for each row; the last column is cut where a line would be too long."""
    cells = [[*columns], *([cell(row.get(name)) for name in columns] for row in rows)]
    is_number = [bool(rows) and all(type(row.get(name)) is int for row in rows) for name in columns]
    widths = [max(cell_len(line[n]) for line in cells) for n in range(len(columns))]
    before = sum(widths[:-1]) + len(_GAP) * (len(widths) - 1)
    widths[-1] = min(widths[-1], max(WIDTH - before, 1))
    return [
        _GAP.join(
            _cut(text, width).rjust(width) if right else set_cell_size(_cut(text, width), width)
            for text, width, right in zip(line, widths, is_number, strict=True)
        ).rstrip()
        for line in cells
    ]


def facts(document: Mapping[str, Any], columns: int = WIDTH) -> list[str]:
    """A line for each field, those of an object within it under both names; what is long goes on below."""
    flat = dict(_flat(document))
    width = max(map(len, flat), default=0)
    lines = []
    for name, value in flat.items():
        text = _printable(value) if isinstance(value, str) else cell(value)
        folded = _folded(text, columns - width - len(_GAP))
        lines += [f"{'' if n else name:{width}}{_GAP}{part}".rstrip() for n, part in enumerate(folded)]
    return lines


def _folded(text: str, width: int) -> list[str]:
    """Lines of at most that many cells, between words where it can be."""
    lines = textwrap.wrap(text, width, break_on_hyphens=False)
    return [part for line in lines for part in chop_cells(line, width)] or [""]


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _flat(document: Mapping[str, Any]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in document.items():
        if isinstance(value, dict) and value:
            found += [(f"{name}.{key}", one) for key, one in value.items()]
        else:
            found.append((name, "-" if value in ({}, [], None) else value))
    return found


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, width - 1) + "\u2026"
