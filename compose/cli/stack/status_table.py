"""The table of processes that ``up`` and ``status`` show. It fits 80 columns, and no address is folded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from compose.supervise.state import ProcessState, StackState

_COLOURS: Final = {
    "starting": "yellow",
    "ready": "green",
    "silent": "red",
    "restarting": "red",
    "stopped": "dim",
}


def status_table(state: StackState) -> Table:
    """One line for every process; what there is to say of one is folded beside it."""
    table = Table(title=f"millrace: {state.phase}", title_justify="left", box=None, pad_edge=False)
    for column in ("name", "state", "pid", "address"):
        table.add_column(column, no_wrap=True)
    table.add_column("note", overflow="fold")
    for entry in state.processes:
        colour = _COLOURS[entry.condition]
        table.add_row(
            entry.name,
            f"[{colour}]{entry.condition}[/]",
            str(entry.pid or ""),
            entry.address or entry.ops_url or "",
            escape(_note(entry)),
        )
    return table


def _note(entry: ProcessState) -> str:
    restarts = [] if not entry.restarts else [f"{entry.restarts} restart{'s' * (entry.restarts > 1)}"]
    return "; ".join([*restarts, *([entry.note] if entry.note else [])])
