"""New work is refused while the disk of our own servers has still room to end what they began.

A disk that is full stops Kafka and Postgres in the middle, for everybody and for reads as well. Refused earlier, with
503, callers lose nothing: what was decided is answered, and the same identity may be sent again later.
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

#: closed below this, before the supervisor gives back what it holds; open again where it would hold it again
_CLOSED_BYTES: Final = limits.DISK_RESERVE_BYTES // 2
_OPEN_BYTES: Final = 2 * limits.DISK_RESERVE_BYTES


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


class DiskRoom:
    """Looks at the disk of a folder, now and then; without a folder there is always room."""

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
        """Why nothing new may begin; None where it may."""
        if self._folder is not None and self._clock() >= self._look_again_at:
            self._look_again_at = self._clock() + limits.DISK_LOOK_INTERVAL_S
            self._look(self._folder)
        return errors.Unavailable("The disk is nearly full: no new work is taken.") if self._is_closed else None

    def _look(self, folder: Path) -> None:
        try:
            free = self._free_bytes(folder)
        except OSError as error:  # a disk that cannot be asked is no reason by itself
            structlog.get_logger().warning("disk_not_looked_at", error=str(error))
            return
        was_closed, self._is_closed = self._is_closed, free < (_OPEN_BYTES if self._is_closed else _CLOSED_BYTES)
        metrics.DISK_CLOSED.set(self._is_closed)
        if was_closed != self._is_closed:
            structlog.get_logger().warning("admission_by_disk", closed=self._is_closed, free_bytes=free)
