"""A file in memory whose pages the disk has room for: a write to it never meets a full disk.

A page of a file with holes finds its place on the disk at the first write to it; where there is none left, the process
that writes ends by SIGBUS.
"""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def mapped_file(path: Path, size_bytes: int) -> mmap.mmap:
    """A new file of zeros at this place, which is read by nobody else.

    A file that was there is gone, and stays whole for a process that still has it open. Raises OSError where the disk
    has no room for all of it: nothing is left at the place then.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, size_bytes)
        return mmap.mmap(descriptor, size_bytes)
    except OSError as refused:
        path.unlink()
        raise OSError(refused.errno, refused.strerror, str(path)) from None
    finally:
        os.close(descriptor)
