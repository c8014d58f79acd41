"""A moment in which nothing of a stack but Postgres runs: its files are then as a kill of all would leave them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from compose import limits
from compose.stack import processes
from compose.stack.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from subprocess import Popen
    from typing import IO

    from compose.supervise.state import StackState

    _Processes = set[processes.ProcessId]

#: runs on: it is asked where it stands, and nobody is there who would change what it holds
_GOES_ON: Final = "postgres"
_LOOK_S: Final = 0.005


@contextmanager
def frozen(look: Callable[[], StackState]) -> Iterator[None]:
    """Servers and services of the stack stand still until the end of the block, or until this process ends.

    At most ``BACKUP_FREEZE_MAX_S``: the supervisor would take them for dead. A block that took longer is a StackError,
    and so is one in which the supervisor started a process. ``look`` reads the state of the stack.
    """
    command = [sys.executable, "-m", "compose.backup.thaw"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as thaw:
        told, held = thaw.stdout, thaw.stdin
        try:
            if told is None or held is None or not told.readline():
                raise StackError("what would let the stack go on again did not start")
            before = look()
            stopped = _stop(lambda: _members(look()), held, thaw)
            yield
            is_late = thaw.poll() is not None
            after = look()
            is_changed = _pids(after) != _pids(before) or not _members(after) <= stopped
        finally:
            if held is not None:
                with suppress(BrokenPipeError):
                    held.close()
            thaw.wait()
    if is_late:
        raise StackError(
            f"what changed meanwhile could not be copied in {limits.BACKUP_FREEZE_MAX_S} s, for which the stack may "
            "stand still: try again in a quieter hour, or copy the home after 'millrace down'"
        )
    if is_changed:
        raise StackError("a process of the stack was started while all stood still: see 'millrace status', try again")


def _stop(members: Callable[[], _Processes], held: IO[bytes], thaw: Popen[bytes]) -> _Processes:
    """Stops all, and what they started until they stood; who lets them go on again knows each one before it stands."""
    stopped: _Processes = set()
    while thaw.poll() is None and (new := members() - stopped):
        for process in new:
            held.write(f"{process.pid}:{process.started}\n".encode())
        held.flush()
        for process in new:
            processes.send(process, signal.SIGSTOP)
        while not all(map(_stands, new)) and thaw.poll() is None:
            time.sleep(_LOOK_S)  # who is in the middle of writing ends that first
        stopped |= new
    return stopped


def _members(state: StackState) -> _Processes:
    """Every process of the stack that has to stand still, and runs."""
    told = {entry.name: entry.process for entry in state.processes if entry.process}
    found = {*told.values(), *processes.marked(state.stack_id)}
    goes_on = {process for name, process in told.items() if name in ("supervisor", "guard", _GOES_ON)}
    found |= {*processes.descendants(*(found - goes_on))}
    found -= {*goes_on, *processes.descendants(*(process for name, process in told.items() if name == _GOES_ON))}
    return {one for one in found if one.alive()}


def _pids(state: StackState) -> dict[str, processes.ProcessId | None]:
    return {entry.name: entry.process for entry in state.processes}


def _stands(process: processes.ProcessId) -> bool:
    """Whether no thread of it runs; one that has ended stands, too."""
    try:
        states = [task.joinpath("stat").read_text() for task in Path(f"/proc/{process.pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return not process.alive()
    return all(text.rpartition(")")[2].split()[0] in "TtZX" for text in states)
