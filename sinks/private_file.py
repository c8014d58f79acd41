"""A file that only its owner reads: whole or absent, and on the disk when a call returns, its folder's entry too."""

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PRIVATE_FILE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700


def write_once(path: Path, text: str) -> bool:
    """The file, unless there is one: of several processes at once one is first, and its text counts. True for that one.

    Its folder is made when it is missing.
    """
    if path.exists():
        return False
    path.parent.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
    draft = _draft(path, text)
    try:
        os.link(draft, path)  # never over another's
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    _keep_entry(path)
    return True


def replace(path: Path, text: str) -> None:
    """The file has another text: who reads it sees the old one or the new one."""
    _draft(path, text).replace(path)
    _keep_entry(path)


def append(path: Path, text: str) -> None:
    """The text stands behind what the file has; a crash may leave some of it. Who else may append waits: ``alone``."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _PRIVATE_FILE)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    _keep_entry(path)


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """One at a time of all that change a file; two who did so at once would lose what one of them wrote."""
    descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT, _PRIVATE_FILE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _draft(path: Path, text: str) -> Path:
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError:  # a full disk
        draft.unlink()
        raise
    return draft


def _keep_entry(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
