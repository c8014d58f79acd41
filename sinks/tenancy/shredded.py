"""The tenants whose keys were destroyed, in a file beside the root keys, not in the database.

A database that is put back from before has their keys again, and opens nothing of theirs: who unwraps keys looks here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from schemas import errors
from sinks import private_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

NAME: Final = "tenancy_shredded"


class Shredded:
    """Those of one home, read again when the file changed. Nobody is ever taken out of it."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / NAME
        self._seen: tuple[int, ...] = ()
        self._tenants: frozenset[str] = frozenset()

    def all(self) -> frozenset[str]:
        """Their ids; a file that is gone takes back nothing. Raises Unavailable for one that cannot be read."""
        try:
            found = self._file.stat()
            seen = (found.st_mtime_ns, found.st_ino, found.st_size)
            if seen != self._seen:
                self._tenants |= frozenset(self._file.read_text().split())
                self._seen = seen
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            raise errors.Unavailable(f"{NAME} cannot be read") from error
        return self._tenants

    def add(self, tenants: Iterable[str]) -> None:
        """These are among them, on the disk, when this returns. Raises Unavailable."""
        try:
            with private_file.alone(self._file.with_name(f"{NAME}.lock")):
                there = frozenset(self._file.read_text().split()) if self._file.exists() else frozenset()
                if new := sorted((self.all() | set(tenants)) - there):
                    # a line begins with its end: behind one that a crash cut short, it is still one of its own
                    private_file.append(self._file, "".join(f"\n{tenant_id}" for tenant_id in new))
                    self._tenants |= frozenset(new)
        except (OSError, ValueError) as error:
            raise errors.Unavailable(f"{NAME} cannot be written") from error
