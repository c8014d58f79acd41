"""Ids of what was destroyed, in a file beside the keys, not in the database.

A database that is put back from before has again what these ids name: who has the file knows better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemas import errors
from sinks import private_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class GoneForEver:
    """Those of one file, read again when it changed. Nobody is ever taken out of it. An id has no white space."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file = folder / name
        self._seen: tuple[int, ...] = ()
        self._ids: frozenset[str] = frozenset()

    def all(self) -> frozenset[str]:
        """The ids; a file that is gone takes back nothing. Raises Unavailable for one that cannot be read."""
        try:
            found = self._file.stat()
            seen = (found.st_mtime_ns, found.st_ino, found.st_size)
            if seen != self._seen:
                self._ids |= frozenset(self._file.read_text().split())
                self._seen = seen
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            raise errors.Unavailable(f"{self._file.name} cannot be read") from error
        return self._ids

    def add(self, ids: Iterable[str]) -> None:
        """These are among them, on the disk, when this returns. Raises Unavailable."""
        try:
            with private_file.alone(self._file.with_name(f"{self._file.name}.lock")):
                there = frozenset(self._file.read_text().split()) if self._file.exists() else frozenset()
                if new := sorted((self.all() | set(ids)) - there):
                    # a line begins with its end: behind one that a crash cut short, it is still one of its own
                    private_file.append(self._file, "".join(f"\n{one}" for one in new))
                    self._ids |= frozenset(new)
        except (OSError, ValueError) as error:
            raise errors.Unavailable(f"{self._file.name} cannot be written") from error
