"""Files that are held by who writes them: a lock that the kernel gives back when that process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
import time
import uuid
from pathlib import Path
from typing import BinaryIO, Final

_HELD: Final = ".held"  # in the name of a file whose writer holds it; others say nothing by a lock


def new_file(folder: Path) -> tuple[Path, BinaryIO]:
    """A file of the folder that nobody has, held while it is open. Raises OSError as opening it does.

    Where the file system has no locks its name says so.
    """
    while True:
        path = folder / f"{uuid.uuid4().hex}{_HELD}"
        file = path.open("xb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # whoever looks for dead writers was faster, and takes it away
            file.close()
        except OSError:
            return path.rename(path.with_suffix("")), file
        else:
            if os.fstat(file.fileno()).st_nlink:
                return path, file
            file.close()


def remove_left(folder: Path, old_s: float) -> None:
    """Takes away what writers left that have ended; by its age alone, in seconds, what nobody can hold."""
    before = time.time() - old_s
    for path in folder.iterdir():
        try:
            with path.open("rb") as file:
                if path.suffix == _HELD:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                elif os.fstat(file.fileno()).st_mtime >= before:
                    continue
                path.unlink()
        except OSError:  # somebody writes it, or has ended just now
            continue
