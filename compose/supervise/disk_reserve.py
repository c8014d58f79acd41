"""Room on the home's disk that is given back when the disk is full, so that what stopped for want of it can recover.

A full disk stops Kafka and Postgres, which are started again and again until they have room. The reserve is that room:
enough to recover, and to delete what fills the disk. It is taken again when there is room for it and as much beside it.
A stack that was stopped holds none: homes are left lying, and a start wants more than that anyway.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ingress import limits

if TYPE_CHECKING:
    from compose.stack.home import Home

_FULL_BYTES: Final = limits.DISK_RESERVE_BYTES // 4


class DiskReserve:
    """The file of a home that holds the room. ``look`` gives what there is to say, or None."""

    def __init__(self, home: Home) -> None:
        self._file = home.run / "reserve"
        self._folder = home.path
        self._look_again_at = 0.0

    def look(self) -> str | None:
        """Gives the room back or takes it, by what the disk has; asks the disk once in a while only."""
        now = time.monotonic()
        if now < self._look_again_at:
            return None
        self._look_again_at = now + limits.DISK_LOOK_INTERVAL_S
        try:
            return self._settle(shutil.disk_usage(self._folder).free)
        except OSError as error:
            return f"no room is held back on the disk of {self._folder}: {error}"

    def give_back(self) -> None:
        """Nothing runs any more that could need it: a stopped home holds no room. Ends nothing where it fails."""
        with suppress(OSError):
            self._file.unlink()

    def _settle(self, free_bytes: int) -> str | None:
        if free_bytes < _FULL_BYTES and self._file.exists():
            self._file.unlink()
            megabytes = limits.DISK_RESERVE_BYTES // 2**20
            return f"the disk of {self._folder} is full: {megabytes} MiB that were held back are given back"
        if free_bytes > 2 * limits.DISK_RESERVE_BYTES and not self._file.exists():
            self._hold()
        return None

    def _hold(self) -> None:
        draft = self._file.with_name(".reserve")
        with draft.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, limits.DISK_RESERVE_BYTES)
        draft.replace(self._file)
