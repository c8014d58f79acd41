"""The folder that all processes of one run share: its servers, its locks, and the line that keeps its stacks alive."""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_VARIABLE: Final = "MILLRACE_TEST_FOLDER"
#: made by the first process of a run, before pytest-xdist starts workers, which inherit the variable
_IS_FIRST: Final = _VARIABLE not in os.environ
FOLDER: Final = Path(tempfile.mkdtemp(prefix="millrace-run-") if _IS_FIRST else os.environ[_VARIABLE])
os.environ[_VARIABLE] = str(FOLDER)


def _hold_lifeline() -> Path:
    """Every process of the run holds this FIFO open: stacks that are tied to it end after the last of them."""
    path = FOLDER / "lifeline"
    if _IS_FIRST:
        os.mkfifo(path)
    os.open(path, os.O_RDWR)  # kept until this process ends; not inherited by what it starts
    return path


LIFELINE: Final = _hold_lifeline()


def is_first() -> bool:
    """True in the process that the others of the run were started by."""
    return _IS_FIRST


def remove() -> None:
    """What the run leaves behind is nothing, soon: a process that nobody waits for removes hundreds of thousands of files."""
    closed = subprocess.DEVNULL
    process = subprocess.Popen(
        ["rm", "-rf", FOLDER], stdin=closed, stdout=closed, stderr=closed, start_new_session=True
    )
    process.returncode = 0  # nobody waits for it


@contextmanager
def locked(name: str, *, shared: bool = False) -> Iterator[None]:
    """One process of the run at a time, or many that share; who asks for it alone is not overtaken for ever."""
    with (FOLDER / f"{name}.turn").open("a") as turn, (FOLDER / f"{name}.lock").open("a") as lock:
        fcntl.flock(turn, fcntl.LOCK_EX)
        fcntl.flock(lock, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        fcntl.flock(turn, fcntl.LOCK_UN)
        yield


def next_number(name: str) -> int:
    """0, 1, 2...: each given once in a run."""
    with locked(name):
        path = FOLDER / f"{name}.number"
        number = int(path.read_text()) if path.exists() else 0
        path.write_text(str(number + 1))
    return number
