"""``millrace status``: what runs, told by the state file and the processes themselves."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import typer

from compose.cli.options import AsJson
from compose.stack.home import Home
from compose.supervise.state import StackState, read_state

app = typer.Typer()


@app.command()
def status(
    as_json: AsJson = False,
) -> None:
    """Show every process; exit status 3 when the stack is not ready."""
    # The variable is read directly: loading all settings would take longer than everything else here.
    home = Home(Path(os.environ.get("MILLRACE_HOME") or ".millrace").expanduser().absolute())
    state = read_state(home)
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
