"""Leaves an ill processor alone. Attempts wait in the table meanwhile (mode: fail closed); nothing is lost.

closed -> open: many outages in a row, or a few while nothing was answered for a moment. open -> half_open: a probe that
moves no money was answered. half_open -> closed: one call was answered; half_open -> open: it was not. Routers keep
away while it is open; half_open needs a first payment.
"""

from __future__ import annotations

from typing import Literal

from schemas.payments import limits

BreakerState = Literal["closed", "half_open", "open"]


class CircuitBreaker:
    """The state of one processor as one worker sees it; ``now`` is in monotonic seconds."""

    def __init__(self) -> None:
        self._outages = 0
        self._probe_at = 0.0
        self._silent_since: float | None = None  # the first outage since anything was answered
        self.state: BreakerState = "closed"

    def calls_max(self, in_flight: int) -> int:
        """How many calls may be in flight as far as the breaker is concerned."""
        if self.state == "closed":
            return limits.ATTEMPT_CALLS_IN_FLIGHT_MAX
        return 1 if self.state == "half_open" and in_flight == 0 else 0

    def is_probe_due(self, now: float) -> bool:
        """True when the processor was left alone for long enough to be asked how it is."""
        return self.state == "open" and now >= self._probe_at

    def away_for_s(self, now: float) -> float:
        """For how long nothing was answered, calls and probes alike; 0 unless it is open."""
        return now - self._silent_since if self.state == "open" and self._silent_since is not None else 0.0

    def probed(self, now: float, *, is_answered: bool) -> None:
        """What came of a probe."""
        if self.state != "open":
            return
        if is_answered:
            self.state, self._silent_since = "half_open", None
        else:
            self._probe_at = now + limits.ATTEMPT_BREAKER_OPEN_MS / 1_000

    def answered(self) -> None:
        """The processor answered a call, whatever it said."""
        self._outages, self._silent_since = 0, None
        self.state = "closed"

    def _is_out(self, silent_s: float) -> bool:
        """Whether it is left alone; where few payments come, so many outages in a row would take minutes."""
        if self._outages >= limits.ATTEMPT_BREAKER_FAILURES:
            return True
        return (
            self._outages >= limits.ATTEMPT_BREAKER_OUTAGES_MIN and silent_s >= limits.ATTEMPT_BREAKER_SILENT_MS / 1_000
        )

    def failed(self, now: float) -> None:
        """An outage: no connection, no answer, or an error of the processor's own."""
        self._outages += 1
        if self._silent_since is None:
            self._silent_since = now
        if self.state == "closed" and not self._is_out(now - self._silent_since):
            return
        self.state = "open"
        self._probe_at = now + limits.ATTEMPT_BREAKER_OPEN_MS / 1_000
