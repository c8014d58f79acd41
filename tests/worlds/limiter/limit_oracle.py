"""What a counter must answer, computed from the whole history of charges with exact fractions: no state to go wrong."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from schemas.calendar_windows import window_at
from schemas.limiter.limit_terms import Terms

if TYPE_CHECKING:
    from collections.abc import Sequence

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


class RunningOracle:
    """The same answers without the history, for long runs. Whole numbers of any size over one divisor: nothing is rounded.

    ``available`` of a later tick is a question and changes nothing; the clock of ``charge`` never goes back.
    """

    def __init__(self, terms: Terms, boundaries: Sequence[int] = ()) -> None:
        self.terms = terms
        self.boundaries = boundaries  # of a calendar's windows, in ticks
        self.level, self.at = terms.capacity * terms.period, 0  # of a bucket: tokens times the period, and when
        self.counts: dict[int, int] = {}  # by window or slot

    def part(self, now: int) -> int:
        """The window or slot of a tick."""
        if self.boundaries:
            return bisect_right(self.boundaries, now) - 1
        return now // (self.terms.period // self.terms.slots)

    def _level(self, now: int) -> int:
        return min(self.terms.capacity * self.terms.period, self.level + (now - self.at) * self.terms.refill)

    def available(self, now: int) -> int:
        """Whole tokens that a request may take at a tick."""
        t = self.terms
        if t.algorithm == TOKEN_BUCKET:
            return self._level(now) // t.period
        here = self.part(now)
        if t.algorithm != SLIDING:
            return t.capacity - self.counts.get(here, 0)
        slot, oldest = t.period // t.slots, here - t.slots
        whole = sum(count for at, count in self.counts.items() if at > oldest)
        still = slot if t.strict else slot - now % slot
        return t.capacity - whole - -(-self.counts.get(oldest, 0) * still // slot)

    def next_token(self, now: int) -> int:
        """The tick at which a bucket that is not full has one more."""
        missing = self.terms.period - self._level(now) % self.terms.period
        return now - (-missing // self.terms.refill)

    def charge(self, now: int, cost: int) -> None:
        """Something was allowed. What is too old to count is forgotten."""
        t = self.terms
        if t.algorithm == TOKEN_BUCKET:
            self.level, self.at = self._level(now) - cost * t.period, now
            return
        here = self.part(now)
        if here not in self.counts:
            kept = here - (t.slots if t.algorithm == SLIDING else 0)
            self.counts = {at: count for at, count in self.counts.items() if at >= kept}
        self.counts[here] = self.counts.get(here, 0) + cost

    def reset(self, now: int) -> int:
        """Ticks until what is charged by now counts no more."""
        t = self.terms
        if t.algorithm == TOKEN_BUCKET:
            return -(-(t.capacity * t.period - self._level(now)) // t.refill)
        here = self.part(now)
        if self.boundaries:
            return self.boundaries[here + 1] - now
        if t.algorithm != SLIDING:
            return (here + 1) * t.period - now
        newest = max((at for at, count in self.counts.items() if count and at >= here - t.slots), default=None)
        return 0 if newest is None else (newest + t.slots + 1) * (t.period // t.slots) - now


class PermitOracle:
    """Permits by name, each until it is given back or its time is over. Whatever changes them forgets those whose time is over."""

    def __init__(self, capacity: int, life: int) -> None:
        self.capacity, self.life = capacity, life
        self.held: dict[str, list[int]] = {}  # name: when each of its permits ends

    def ends(self, now: int) -> list[int]:
        """When the permits end that count now, the first one first."""
        return sorted(end for ends in self.held.values() for end in ends if end > now)

    def take(self, now: int, name: str, permits: int) -> None:
        """They were granted."""
        self.held = {kept: ends for kept, ends in self.held.items() if ends[0] > now}
        if permits:
            self.held[name] = [now + self.life] * permits

    def give_back(self, now: int, name: str) -> int:
        """How many of the name's there still were; forgets too."""
        self.take(now, name, 0)
        return len(self.held.pop(name, ()))
