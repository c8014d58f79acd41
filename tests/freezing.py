"""Freezes processes. One thread of a process carries SIGSTOP out, as soon as it gets a core; until then the others go on."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

from tests.eventually import eventually

_AT_REST: Final = frozenset("TtZX")  # proc(5): stopped, traced, ended


def freeze(pid: int) -> None:
    """Returns when no thread of the process runs any more. SIGCONT ends it."""
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: _states(pid) <= _AT_REST, what=f"{pid} is frozen")


def _states(pid: int) -> set[str]:
    found = set()
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            status = (thread / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        found.add(status.rpartition(")")[2].split()[0])  # its name may hold blanks and brackets
    return found
