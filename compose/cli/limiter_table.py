"""What commands about the limiter found, as a table."""

from __future__ import annotations

from typing import Any


def print_table(rows: list[dict[str, Any]], columns: tuple[str, ...], *, none: str = "no policy") -> None:
    """What a command found, for people."""
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    if not rows:
        print(none)
        return
    table = Table(box=None, pad_edge=False)
    for column in columns:
        ids = column == "policy_id"  # to be copied: never cut
        table.add_column(column, min_width=max(len(row[column]) for row in rows) if ids else None, overflow="fold")
    for row in rows:
        table.add_row(*(str(row[column]) for column in columns))
    Console().print(table)
