"""Freezes processes. One thread of a process carries SIGSTOP out, as soon as it gets a core; until then the others go on."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_AT_REST: Final = frozenset("TtZX")  # proc(5): stopped, traced, ended


def freeze(pid: int) -> None:
    """Returns when no thread of the process runs any more. SIGCONT ends it."""
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: _states(pid) <= _AT_REST, what=f"{pid} is frozen")


@contextmanager
def frozen(pids: Iterable[int]) -> Iterator[None]:
    """These processes stand still meanwhile; one that is gone by the end is left alone."""
    stopped = list(pids)
    for pid in stopped:
        freeze(pid)
    try:
        yield
    finally:
        for pid in stopped:
            with suppress(ProcessLookupError):  # a supervisor replaces what is silent for long
                os.kill(pid, signal.SIGCONT)


def _states(pid: int) -> set[str]:
    found = set()
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            status = (thread / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        found.add(status.rpartition(")")[2].split()[0])  # its name may hold blanks and brackets
    return found
