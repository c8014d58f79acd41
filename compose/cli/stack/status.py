"""``millrace status``: what runs, told by the state file; what it cannot serve, told by the processes themselves."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from urllib.parse import urlsplit

import typer

from compose.cli.options import AsJson
from compose.stack.home import Home
from compose.supervise.asked import refusal
from compose.supervise.state import ProcessState, StackState, read_state

app = typer.Typer()


@app.command()
def status(
    as_json: AsJson = False,
) -> None:
    """Show every process, and what it cannot serve; exit status 3 when the stack is not ready for everything."""
    # The variable is read directly: loading all settings would take longer than everything else here.
    home = Home(Path(os.environ.get("MILLRACE_HOME") or ".millrace").expanduser().absolute())
    state = _as_it_serves(read_state(home))
    ready = state is not None and state.running() and state.phase == "ready"
    if as_json:
        print(json.dumps({"home": str(home.path), "ready": ready, **_as_object(state)}))
    elif state is None or not state.running():
        print(f"nothing runs in {home.path}{_left_over(state)}")
    else:
        from rich.console import Console  # noqa: PLC0415 - JSON and the empty answer are faster without it

        from compose.cli.stack.status_table import status_table  # noqa: PLC0415

        Console().print(status_table(state))
    raise typer.Exit(0 if ready else 3)


def _as_it_serves(state: StackState | None) -> StackState | None:
    """With what each process of ours lacks as its note; one that lacks anything makes a ready stack a degraded one.

    The supervisor does not look for that: a new start mends neither a halted partition nor a server that is away.
    """
    if state is None or not state.running() or state.phase != "ready":
        return state
    with ThreadPoolExecutor() as pool:
        processes = list(pool.map(_as_it_says, state.processes))
    return replace(state, processes=processes, phase="ready" if processes == state.processes else "degraded")


def _as_it_says(entry: ProcessState) -> ProcessState:
    if entry.ops_url is None or entry.condition != "ready":
        return entry
    lacks = refusal(urlsplit(entry.ops_url).netloc, "/readyz")
    return entry if lacks is None else replace(entry, note=f"cannot serve everything: {lacks}")


def _as_object(state: StackState | None) -> dict[str, object]:
    if state is None:
        return {"phase": "stopped", "error": "", "processes": []}
    phase = state.phase if state.running() else "stopped"
    processes = [
        asdict(entry) | {"alive": entry.process is not None and entry.process.alive()} for entry in state.processes
    ]
    return {"phase": phase, "error": state.error, "processes": processes}


def _left_over(state: StackState | None) -> str:
    if state is None:
        return ""
    if state.error:
        return f"; the last start failed: {state.error}"
    left = [entry.name for entry in state.processes if entry.process is not None and entry.process.alive()]
    return f"; left by a killed supervisor: {', '.join(left)} (run 'millrace down')" if left else ""
