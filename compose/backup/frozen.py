"""A moment in which nothing of a stack but Postgres runs: its files are then as a kill of all would leave them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from compose import limits
from compose.stack import processes
from compose.stack.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compose.supervise.state import StackState

#: runs on: it is asked where it stands, and nobody is there who would change what it holds
_GOES_ON: Final = "postgres"
_LOOK_S: Final = 0.005


@contextmanager
def frozen(state: StackState) -> Iterator[None]:
    """Servers and services of the stack stand still until the end of the block, or until this process ends.

    At most ``BACKUP_FREEZE_MAX_S``: the supervisor would take them for dead. A block that took longer is a StackError.
    """
    entries = [e.process for e in state.processes if e.kind != "supervisor" and e.name != _GOES_ON and e.process]
    held = list(dict.fromkeys(found for one in entries for found in (one, *processes.descendants(one))))
    command = [sys.executable, "-m", "compose.backup.thaw", *(f"{one.pid}:{one.started}" for one in held)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as thaw:
        told, ends_with = thaw.stdout, thaw.stdin
        try:
            if not (told and told.readline()):
                raise StackError("what would let the stack go on again did not start")
            for process in held:
                processes.send(process, signal.SIGSTOP)
            while not all(map(_stands, held)) and thaw.poll() is None:
                time.sleep(_LOOK_S)  # who is in the middle of writing ends that first
            yield
            is_late = thaw.poll() is not None
        finally:
            if ends_with:
                ends_with.close()
            thaw.wait()
    if is_late:
        raise StackError(
            f"what changed meanwhile could not be copied in {limits.BACKUP_FREEZE_MAX_S} s, for which the stack may "
            "stand still: try again in a quieter hour, or copy the home after 'millrace down'"
        )


def _stands(process: processes.ProcessId) -> bool:
    """Whether no thread of it runs; one that has ended stands, too."""
    try:
        states = [task.joinpath("stat").read_text() for task in Path(f"/proc/{process.pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return not process.alive()
    return all(text.rpartition(")")[2].split()[0] in "TtZX" for text in states)
