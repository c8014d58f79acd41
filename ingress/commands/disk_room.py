"""Refuses new work while the disk of our own servers still has room to finish what they began.

A full disk stops Kafka and Postgres in the middle of their work, for everybody, reads included. If new work gets a 503
before that, callers lose nothing: decided commands are answered, and the same identity may be sent again later.
"""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Final

import structlog

from ingress import limits
from ingress.http import metrics
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: closes below this, before the supervisor returns its reserve; opens where the supervisor would take it again
_CLOSED_BYTES: Final = limits.DISK_RESERVE_BYTES // 2
_OPEN_BYTES: Final = 2 * limits.DISK_RESERVE_BYTES


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


class DiskRoom:
    """Looks now and then at the disk of a folder; without a folder there is always room."""

    def __init__(
        self,
        folder: Path | None,
        free_bytes: Callable[[Path], int] = _free_bytes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._free_bytes = free_bytes
        self._clock = clock
        self._is_closed = False
        self._look_again_at = float("-inf")

    def why_not(self) -> errors.Unavailable | None:
        """The reason to refuse new work; None to accept it."""
        if self._folder is not None and self._clock() >= self._look_again_at:
            self._look_again_at = self._clock() + limits.DISK_LOOK_INTERVAL_S
            self._look(self._folder)
        return errors.Unavailable("The disk is nearly full: no new work is taken.") if self._is_closed else None

    def _look(self, folder: Path) -> None:
        try:
            free = self._free_bytes(folder)
        except OSError as error:  # not knowing is no reason to refuse
            structlog.get_logger().warning("disk_not_looked_at", error=str(error))
            return
        was_closed, self._is_closed = self._is_closed, free < (_OPEN_BYTES if self._is_closed else _CLOSED_BYTES)
        metrics.DISK_CLOSED.set(self._is_closed)
        if was_closed != self._is_closed:
            structlog.get_logger().warning("admission_by_disk", closed=self._is_closed, free_bytes=free)
