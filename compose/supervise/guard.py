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

from compose import limits
from compose.stack import processes
from compose.supervise.state import state_of_line

if TYPE_CHECKING:
    from compose.stack.home import Home
    from compose.supervise.state import StackState

_FAST_STOP: Final = {"postgres": signal.SIGINT}


class Lifeline:
    """The supervisor's end of the guard's pipe: open, and in no other process, for as long as the stack may run.

    The supervisor never waits for its guard. What the pipe has no room for follows later, so that the guard reads whole
    lines only, and the newest state last.
    """

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._begun = b""  # what is left of a line of which the guard has the beginning
        self._newest = b""

    def tell(self, state: StackState) -> None:
        """Says what runs now."""
        self._newest = state.line()
        self.follow_up()

    def follow_up(self) -> None:
        """Writes what did not fit before."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            while line := self._begun or self._newest:
                if not self._begun:
                    self._newest = b""
                self._begun = line
                self._begun = line[os.write(self._descriptor, line) :]

    def close(self) -> None:
        """The guard takes it for the end of the supervisor."""
        os.close(self._descriptor)


def start(home: Home) -> tuple[processes.ChildProcess, Lifeline]:
    """Starts the guard of a stack."""
    read_end, write_end = os.pipe()
    os.set_inheritable(read_end, True)
    handle = processes.spawn(
        [sys.executable, "-m", "compose.supervise.guard", "--lifeline", str(read_end)],
        environment={},
        log=home.log("supervisor"),
        folder=Path.cwd(),
        keep=(read_end,),
    )
    os.close(read_end)
    return handle, Lifeline(write_end)


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
