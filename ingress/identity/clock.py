"""The clock of a process that lets callers in, beside the database's: tokens, sessions and signatures count by it.

One that is far off lets nobody in: it would believe tokens that have expired, or refuse good ones as expired.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ingress import limits
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import Callable


class JudgedClock:
    """How far off our clock was when the database told its own time last; right until then."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self.wall = wall
        self._off_s = 0.0

    def judge(self, asked_at: float, database_s: float) -> None:
        """The database answered this to a question of ``asked_at``: how long that took is no difference."""
        answered_at = self.wall()
        self._off_s = min(0.0, answered_at - database_s) or max(0.0, asked_at - database_s)

    def require_right(self) -> None:
        """Raises Unavailable while the two are further apart than tokens may be judged with."""
        if abs(self._off_s) > limits.CLOCK_OFF_MAX_S:
            off = f"{self._off_s:+.0f} s off that of the database"
            raise errors.Unavailable(f"The clock of this server is {off}; nobody is let in until it is set.")
