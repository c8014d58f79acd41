"""What a counter must answer, computed from the whole history of charges with exact fractions: no state to go wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

from schemas.calendar_windows import window_at
from schemas.limit_policy import Terms

TOKEN_BUCKET, SLIDING, FIXED = 0, 1, 2


def window_of(terms: Terms, now: int) -> tuple[int, int]:
    """Where the window of a calendar begins and ends, in ticks."""
    assert terms.calendar is not None
    begin, end = window_at(terms.calendar, now * terms.tick_us // 1_000_000)
    return begin * 1_000_000 // terms.tick_us, end * 1_000_000 // terms.tick_us


@dataclass
class Oracle:
    """The history of one counter. Times are ticks; they never go back."""

    terms: Terms
    charges: list[tuple[int, int]] = field(default_factory=list)  # tick, cost

    def charge(self, now: int, cost: int) -> None:
        """Something was allowed."""
        self.charges.append((now, cost))

    def available(self, now: int) -> int:
        """Whole tokens that a request may take at a tick."""
        return math.floor(self.exact(now))

    def exact(self, now: int) -> Fraction:
        """What is left, before it is rounded down."""
        t = self.terms
        if t.algorithm == TOKEN_BUCKET:
            level, last = Fraction(t.capacity), 0
            for at, cost in self.charges:
                level = min(Fraction(t.capacity), level + Fraction((at - last) * t.refill, t.period)) - cost
                last = at
            return min(Fraction(t.capacity), level + Fraction((now - last) * t.refill, t.period))
        if t.calendar is not None:
            begin, end = window_of(t, now)
            return Fraction(t.capacity - self.admitted(begin, end))
        if t.algorithm == FIXED:
            return Fraction(t.capacity - sum(cost for at, cost in self.charges if at // t.period == now // t.period))
        slot = t.period // t.slots
        here, offset = divmod(now, slot)
        whole = sum(cost for at, cost in self.charges if here - t.slots < at // slot <= here)
        fading = sum(cost for at, cost in self.charges if at // slot == here - t.slots)
        share = Fraction(1) if t.strict else Fraction(slot - offset, slot)
        return t.capacity - whole - fading * share

    def allows(self, now: int, cost: int) -> bool:
        """Whether a request would pass."""
        return cost <= self.available(now)

    def admitted(self, begin: int, end: int) -> int:
        """What was allowed from ``begin`` to before ``end``."""
        return sum(cost for at, cost in self.charges if begin <= at < end)
