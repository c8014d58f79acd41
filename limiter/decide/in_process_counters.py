"""Counters of one process: the two most used algorithms in few steps of Python, the others as owners count.

All answer as ``ExactCounter`` does. Times are microseconds of a clock that never goes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from limiter.spending.decision import Decision
from schemas.limiter.exact_counter import FIXED, TOKEN_BUCKET, ExactCounter

if TYPE_CHECKING:
    from schemas.limiter.limit_terms import Terms

_US_PER_MS: Final = 1_000
_REFUSED: Final = -1
_make: Final = tuple.__new__  # makes a Decision at half the cost of calling the class


class Counter(Protocol):
    """One counter under its terms."""

    terms: Terms
    id_: str  # of its limit
    version: int

    def spent(self, now_us: int, cost: int) -> Decision | None:
        """Charges and returns the answer, for a key of this counter alone; None, uncharged, if it does not fit."""

    def take(self, now_us: int, cost: int) -> int:
        """Charges if it fits and returns what is left; -1, uncharged, if it does not fit."""

    def available(self, now_us: int) -> int:
        """How much a request may take; below zero if the capacity was lowered below what is used."""

    def reset_ms(self, now_us: int) -> int:
        """How long until nothing past counts, rounded up."""

    def retry_us(self, now_us: int, cost: int) -> int:
        """The least wait after which a refused cost passes; -1 for never."""

    def is_over(self, now_us: int) -> bool:
        """Whether nothing counts any more."""

    def exact(self) -> ExactCounter:
        """The same count in the form that owners keep."""


def counter_of(terms: Terms, before: ExactCounter | None, now_us: int) -> Counter:
    """A counter under these terms that takes over the count of one under other terms."""
    exact = ExactCounter(terms) if before is None else before
    if exact.terms != terms:
        exact.carry_over(terms, now_us, now_us)
    if terms.algorithm == TOKEN_BUCKET:
        return BucketCounter(exact)
    return WindowCounter(exact) if terms.algorithm == FIXED else ExactlyCounted(exact)


class ExactlyCounted:
    """Sliding and calendar windows."""

    id_ = ""
    version = 0

    def __init__(self, exact: ExactCounter) -> None:
        self.terms = exact.terms
        self._exact = exact

    def spent(self, now_us: int, cost: int) -> Decision | None:
        """As ``Counter``."""
        left = self.take(now_us, cost)
        return None if left < 0 else Decision(True, left, self.reset_ms(now_us), 0, self.id_, self.version)

    def take(self, now_us: int, cost: int) -> int:
        """As ``Counter``."""
        left = self._exact.available(now_us) - cost
        if left < 0:
            return _REFUSED
        if cost:
            self._exact.charge(now_us, cost)
        return left

    def available(self, now_us: int) -> int:
        """As ``Counter``."""
        return self._exact.available(now_us)

    def reset_ms(self, now_us: int) -> int:
        """As ``Counter``."""
        return -(-self._exact.reset_us(now_us) // _US_PER_MS)

    def retry_us(self, now_us: int, cost: int) -> int:
        """As ``Counter``."""
        return self._exact.retry_us(now_us, cost)

    def is_over(self, now_us: int) -> bool:
        """As ``Counter``."""
        return self._exact.used(now_us) <= 0

    def exact(self) -> ExactCounter:
        """As ``Counter``."""
        return self._exact.copy()


class WindowCounter:
    """A fixed window: a count and the window's end."""

    __slots__ = ("_capacity", "_ends_us", "_period_us", "_used", "id_", "terms", "version")

    def __init__(self, exact: ExactCounter) -> None:
        self.id_, self.version = "", 0
        self.terms = terms = exact.terms
        self._capacity, self._period_us = terms.capacity, terms.period * terms.tick_us
        slot = max(exact.counts, default=0)
        self._used, self._ends_us = exact.counts.get(slot, 0), (slot + 1) * self._period_us

    def spent(self, now_us: int, cost: int) -> Decision | None:
        """As ``Counter``."""
        ends_us = self._ends_us
        if now_us >= ends_us:
            self._used, self._ends_us = 0, (now_us // self._period_us + 1) * self._period_us
            ends_us = self._ends_us
        used = self._used + cost
        left = self._capacity - used
        if left < 0:
            return None
        self._used = used
        reset_ms = -((now_us - ends_us) // _US_PER_MS)
        return _make(Decision, (True, left, reset_ms, 0, self.id_, self.version, False, False, False))

    def take(self, now_us: int, cost: int) -> int:
        """As ``Counter``."""
        if now_us >= self._ends_us:
            self._used, self._ends_us = 0, (now_us // self._period_us + 1) * self._period_us
        left = self._capacity - self._used - cost
        if left < 0:
            return _REFUSED
        self._used += cost
        return left

    def available(self, now_us: int) -> int:
        """As ``Counter``."""
        return self._capacity if now_us >= self._ends_us else self._capacity - self._used

    def reset_ms(self, now_us: int) -> int:
        """As ``Counter``."""
        return -(-self._rest_us(now_us) // _US_PER_MS)

    def retry_us(self, now_us: int, cost: int) -> int:
        """As ``Counter``."""
        return -1 if cost > self._capacity else self._rest_us(now_us)

    def is_over(self, now_us: int) -> bool:
        """As ``Counter``."""
        return now_us >= self._ends_us or not self._used

    def exact(self) -> ExactCounter:
        """As ``Counter``."""
        slot = self._ends_us // self._period_us - 1
        return ExactCounter(self.terms, at=slot * self.terms.period, counts={slot: self._used} if self._used else {})

    def _rest_us(self, now_us: int) -> int:
        """In whole ticks, as everywhere."""
        tick_us = self.terms.tick_us
        return self._period_us - now_us // tick_us * tick_us % self._period_us


class BucketCounter:
    """A token bucket: a debt in token-ticks and its time."""

    __slots__ = ("_at", "_debt", "_full", "_period", "_refill", "_tick_us", "id_", "terms", "version")

    def __init__(self, exact: ExactCounter) -> None:
        self.id_, self.version = "", 0
        self.terms = terms = exact.terms
        self._tick_us, self._period, self._refill = terms.tick_us, terms.period, terms.refill
        self._full = terms.capacity * terms.period
        self._debt, self._at = exact.debt, exact.at

    def spent(self, now_us: int, cost: int) -> Decision | None:
        """As ``Counter``."""
        now = now_us // self._tick_us
        period, refill = self._period, self._refill
        debt = self._debt - refill * (now - self._at)
        debt = cost * period if debt < 0 else debt + cost * period
        over = self._full - debt
        if over < 0:
            return None
        self._debt, self._at = debt, now
        reset_ms = -(-debt // refill * self._tick_us // _US_PER_MS)
        return _make(Decision, (True, over // period, reset_ms, 0, self.id_, self.version, False, False, False))

    def take(self, now_us: int, cost: int) -> int:
        """As ``Counter``."""
        now = now_us // self._tick_us
        debt = self._debt - self._refill * (now - self._at)
        debt = cost * self._period if debt < 0 else debt + cost * self._period
        if debt > self._full:
            return _REFUSED
        self._debt, self._at = debt, now
        return (self._full - debt) // self._period

    def available(self, now_us: int) -> int:
        """As ``Counter``."""
        return (self._full - self._left(now_us)) // self._period

    def reset_ms(self, now_us: int) -> int:
        """As ``Counter``."""
        debt = self._debt - self._refill * (now_us // self._tick_us - self._at)
        return 0 if debt <= 0 else -(-(-(-debt // self._refill) * self._tick_us) // _US_PER_MS)

    def retry_us(self, now_us: int, cost: int) -> int:
        """As ``Counter``."""
        missing = self._left(now_us) + cost * self._period - self._full
        return -1 if cost > self.terms.capacity else -(-missing // self._refill) * self._tick_us

    def is_over(self, now_us: int) -> bool:
        """As ``Counter``."""
        return self._left(now_us) == 0

    def exact(self) -> ExactCounter:
        """As ``Counter``."""
        return ExactCounter(self.terms, debt=self._debt, at=self._at)

    def _left(self, now_us: int) -> int:
        return max(0, self._debt - self._refill * (now_us // self._tick_us - self._at))
