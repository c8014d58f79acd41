"""Leaves an ill processor alone. Attempts wait in the table meanwhile (mode: fail closed); nothing is lost."""

from __future__ import annotations

from schemas import limits


class CircuitBreaker:
    """Opens after outages in a row, then lets one call through at a time until one is answered."""

    def __init__(self) -> None:
        self._outages = 0
        self._closed_until_probe_at = 0.0

    @property
    def is_open(self) -> bool:
        """True from the opening until a call is answered again."""
        return self._outages >= limits.ATTEMPT_BREAKER_FAILURES

    def calls_max(self, now: float, in_flight: int) -> int:
        """How many calls may be in flight at ``now`` (monotonic seconds) as far as the breaker is concerned."""
        if not self.is_open:
            return limits.ATTEMPT_CALLS_IN_FLIGHT_MAX
        if now < self._closed_until_probe_at or in_flight > 0:
            return 0
        return 1

    def answered(self) -> None:
        """The processor answered, whatever it said."""
        self._outages = 0

    def failed(self, now: float) -> None:
        """An outage: no connection, no answer, or an error of the processor's own."""
        self._outages += 1
        if self.is_open:
            self._closed_until_probe_at = now + limits.ATTEMPT_BREAKER_OPEN_MS / 1_000
