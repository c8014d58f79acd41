"""The folder that all processes of one run share: its servers, its locks, and the line that keeps its stacks alive."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator

_VARIABLE: Final = "MILLRACE_TEST_FOLDER"
_PREFIX: Final = "millrace-run-"
_MEMORY: Final = Path("/dev/shm")
_GIB: Final = 1024**3
#: what a run takes at most: its processes and this folder (16 GiB at the end of a gate with seven workers); this folder
#: (9 GiB, a database for each module); and the homes of its worlds, each of which wants 2 GiB free
_RUN_BYTES: Final = 17 * _GIB
_FOLDER_BYTES: Final = 10 * _GIB
_HOMES_BYTES: Final = 4 * _GIB


def _free_memory() -> Path | None:
    """Where files lie in memory, if a run has room there: it makes a hundred thousand, and a disk books each.

    What a killed run left there is removed: nobody holds its line any more.
    """
    if not os.access(_MEMORY, os.W_OK):
        return None
    for left in _MEMORY.glob(f"{_PREFIX}*/lifeline"):
        try:
            os.close(os.open(left, os.O_WRONLY | os.O_NONBLOCK))
        except OSError as error:
            if error.errno == errno.ENXIO:
                shutil.rmtree(left.parent, ignore_errors=True)
    has_room = psutil.virtual_memory().available > _RUN_BYTES and shutil.disk_usage(_MEMORY).free > _FOLDER_BYTES
    return _MEMORY if has_room else None


#: made by the first process of a run, before pytest-xdist starts workers, which inherit the variable
_IS_FIRST: Final = _VARIABLE not in os.environ
FOLDER: Final = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_free_memory()) if _IS_FIRST else os.environ[_VARIABLE])
os.environ[_VARIABLE] = str(FOLDER)


def _hold_lifeline() -> Path:
    """Every process of the run holds this FIFO open: stacks that are tied to it end after the last of them."""
    path = FOLDER / "lifeline"
    if _IS_FIRST:  # another run that begins sees none that nobody holds
        made = FOLDER / "lifeline.new"
        os.mkfifo(made)
        os.open(made, os.O_RDWR)  # kept until this process ends; not inherited by what it starts
        made.rename(path)
    else:
        os.open(path, os.O_RDWR)
    return path


LIFELINE: Final = _hold_lifeline()


def room_missing() -> str | None:
    """Why a whole run would end for want of room on the disk, in the middle and with hundreds of errors; None: it fits."""
    where = Path(os.environ.get("PYTEST_DEBUG_TEMPROOT") or tempfile.gettempdir())
    wanted = _HOMES_BYTES + (0 if FOLDER.is_relative_to(_MEMORY) else _FOLDER_BYTES)
    free = shutil.disk_usage(where).free
    if free >= wanted:
        return None
    return (
        f"a run of all tests takes up to {wanted // _GIB} GiB in {where}, which has {free / _GIB:.1f} GiB free: make room, or "
        "name another folder in TMPDIR and PYTEST_DEBUG_TEMPROOT"
    )


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
