"""A circuit breaker for one dependency: after some failures in a row, calls fail at once until one trial works."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ingress import limits
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import Callable


class Breaker:
    """Counts failures in a row. Mode: fail_closed, so callers hear 503 and keep their identity."""

    def __init__(
        self,
        name: str,
        clock: Callable[[], float] = time.monotonic,
        failures_max: int = limits.BREAKER_FAILURES_MAX,
    ) -> None:
        self._name = name
        self._clock = clock
        self._failures_max = failures_max
        self._failures = 0
        self._open_until = float("-inf")  # calls are let through from then on

    def enter(self) -> None:
        """Raises Unavailable while the circuit is open; afterwards one call per period tries the dependency."""
        if self._failures < self._failures_max:
            return
        now = self._clock()
        if now < self._open_until:
            raise errors.Unavailable(f"{self._name} is unavailable; try again with the same identity.")
        self._open_until = now + limits.BREAKER_OPEN_S

    def succeeded(self) -> None:
        """Closes the circuit."""
        self._failures = 0

    def failed(self) -> None:
        """Counts a failure; opens the circuit at the bound."""
        self._failures += 1
        if self._failures >= self._failures_max:
            self._open_until = self._clock() + limits.BREAKER_OPEN_S
