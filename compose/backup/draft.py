"""A folder that is there as a whole or not at all: written as a draft beside it, by one process at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from compose.stack.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def draft_of(target: Path, draft: Path) -> Iterator[Path]:
    """An empty folder beside ``target``, which becomes it at the end of the block, or is removed if that fails.

    What a kill left of an earlier one is removed first. Raises StackError when ``target`` is a mount point, or there
    and not empty, or another process writes its draft.
    """
    if target.is_mount():  # the draft would lie on another disk
        raise StackError(f"{target} is a mount point, which no folder takes the place of: give a new folder in it")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StackError(f"{target} is there and not empty: give a new folder")
    draft.mkdir(mode=0o700, parents=True, exist_ok=True)
    held = os.open(draft, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not _is_ours(held, draft):
            raise StackError(f"another process is writing {target}: wait until it ends, or give another folder")
        _empty(draft)
        try:
            yield draft
            os.sync()
            draft.rename(target)  # also where an empty one is: there is no moment without either
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    finally:
        os.close(held)


def need_room(draft: Path, needed: int) -> None:
    """Raises StackError unless so many bytes are free where the draft is."""
    free = shutil.disk_usage(draft).free
    if free < needed:
        raise StackError(
            f"{needed // 2**20} MiB are needed free under {draft.parent}, and {free // 2**20} are: make room, "
            "or give a folder on another disk"
        )


def _is_ours(held: int, draft: Path) -> bool:
    """The lock ends with this process; what was renamed or removed before we had it is another's."""
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(held), draft.stat())
    except (BlockingIOError, FileNotFoundError):
        return False


def _empty(draft: Path) -> None:
    draft.chmod(0o700)
    for path in draft.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
