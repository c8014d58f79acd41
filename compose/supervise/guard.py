"""Ends a stack whose supervisor was killed: ``python -m compose.supervise.guard``.

The supervisor holds one end of a pipe for as long as it lives. When the other end reads its end, whatever still
belongs to the run is stopped. An orderly stop leaves nothing to do.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from compose.stack import processes
from compose.stack.home import Home
from compose.supervise.state import read_state
from schemas import limits

if TYPE_CHECKING:
    import subprocess

    from compose.supervise.state import StackState

_FAST_STOP: Final = {"postgres": signal.SIGINT}


def start(home: Home, stack_id: str) -> tuple[subprocess.Popen[bytes], int]:
    """Starts the guard; the returned descriptor must stay open, and in no other process, while the stack may run."""
    read_end, write_end = os.pipe()
    os.set_inheritable(read_end, True)
    command = [
        sys.executable,
        "-m",
        "compose.supervise.guard",
        "--home",
        str(home.path),
        "--lifeline",
        str(read_end),
    ]
    handle = processes.spawn(
        [*command, "--stack-id", stack_id],
        environment={},
        log=home.log("supervisor"),
        folder=Path.cwd(),
        keep=(read_end,),
    )
    os.close(read_end)
    return handle, write_end


def clean_up(state: StackState) -> list[str]:
    """Stops every process of a run that has no supervisor any more; returns the names of those that still ran."""
    if state.running():
        return []
    left = [
        entry
        for entry in state.processes
        if entry.kind != "supervisor" and entry.process is not None and entry.process.alive()
    ]
    for kind, within_s in (
        ("service", limits.SERVICE_STOP_TIMEOUT_S),
        ("server", limits.SERVER_STOP_TIMEOUT_S),
    ):
        chosen = [entry for entry in left if entry.kind == kind]
        # A killed service loses nothing, and without a supervisor nobody waits for one that drains.
        processes.stop(
            [
                (entry.process, _FAST_STOP.get(entry.name, signal.SIGTERM))
                for entry in chosen
                if entry.process is not None
            ],
            within_s,
        )
    marked = [process for process in processes.marked(state.stack_id) if process.pid != os.getpid()]
    processes.stop([(process, signal.SIGKILL) for process in marked], limits.HEALTH_CHECK_TIMEOUT_S)
    return [entry.name for entry in left]


def main() -> None:
    """Waits for the end of the supervisor, then cleans up."""
    parser = argparse.ArgumentParser(prog="guard")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--lifeline", type=int, required=True)
    parser.add_argument("--stack-id", required=True)
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.read(arguments.lifeline, 1)
    state = read_state(Home(arguments.home))
    if state is not None and state.supervisor is not None:
        # The kernel closes the pipe a moment before the process counts as ended.
        processes.wait_gone([state.supervisor], limits.HEALTH_CHECK_TIMEOUT_S)
    if state is not None and state.stack_id == arguments.stack_id:
        for name in clean_up(state):
            print(f"the supervisor was killed: {name} was stopped", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
