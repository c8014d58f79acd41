"""The table of processes that ``up`` and ``status`` show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from compose.supervise.state import StackState

_COLOURS: Final = {
    "starting": "yellow",
    "ready": "green",
    "restarting": "red",
    "stopped": "dim",
}


def status_table(state: StackState) -> Table:
    """One line for every process."""
    table = Table(title=f"millrace: {state.phase}", title_justify="left")
    for column in ("name", "state", "pid", "restarts", "address", "note"):
        table.add_column(column, overflow="fold")
    for entry in state.processes:
        colour = _COLOURS[entry.condition]
        table.add_row(
            entry.name,
            f"[{colour}]{entry.condition}[/]",
            str(entry.pid or ""),
            str(entry.restarts or ""),
            entry.address or entry.ops_url or "",
            escape(entry.note),
        )
    return table
