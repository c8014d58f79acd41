"""Ends a stack whose supervisor was killed: ``python -m compose.supervise.guard``.

The supervisor holds one end of a pipe for as long as it lives, and says in it what runs. When the other end reads its
end, whatever still belongs to the run is stopped, also when its home was removed. An orderly stop leaves nothing to do.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from compose.stack import processes
from compose.supervise.state import state_of_line
from schemas import limits

if TYPE_CHECKING:
    from compose.stack.home import Home
    from compose.supervise.state import StackState

_FAST_STOP: Final = {"postgres": signal.SIGINT}


def start(home: Home) -> tuple[processes.ChildProcess, int]:
    """Starts the guard; the returned descriptor must stay open, and in no other process, while the stack may run."""
    read_end, write_end = os.pipe()
    os.set_inheritable(read_end, True)
    os.set_blocking(write_end, False)
    handle = processes.spawn(
        [sys.executable, "-m", "compose.supervise.guard", "--lifeline", str(read_end)],
        environment={},
        log=home.log("supervisor"),
        folder=Path.cwd(),
        keep=(read_end,),
    )
    os.close(read_end)
    return handle, write_end


def tell(lifeline: int, state: StackState) -> None:
    """Says what runs now. A guard that does not listen knows the state before; the supervisor never waits for it."""
    with contextlib.suppress(BlockingIOError, BrokenPipeError):
        os.write(lifeline, state.line())


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
    parser.add_argument("--lifeline", type=int, required=True)
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    state = _last_state(arguments.lifeline)
    if state is not None and state.supervisor is not None:
        # The kernel closes the pipe a moment before the process counts as ended.
        processes.wait_gone([state.supervisor], limits.HEALTH_CHECK_TIMEOUT_S)
    if state is not None:
        for name in clean_up(state):
            print(f"the supervisor was killed: {name} was stopped", file=sys.stderr, flush=True)


def _last_state(lifeline: int) -> StackState | None:
    """The newest state that the supervisor told when it ended; its home may be gone by then."""
    told = b""
    while True:
        heard = os.read(lifeline, limits.GUARD_READ_BYTES_MAX)
        if not heard:
            lines = told.split(b"\n")[:-1]
            return state_of_line(lines[-1]) if lines else None
        told += heard
        told = b"\n".join(told.split(b"\n")[-2:])  # the newest whole line, and the beginning of the next


if __name__ == "__main__":
    main()
