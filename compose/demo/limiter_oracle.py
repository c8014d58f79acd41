"""What exact counters must answer, beside the store: the same policies computed from what clients saw alone.

A client knows when it asked and when it was answered, not when the store decided between the two. So every counter is
kept twice. In all three algorithms a charge that lies earlier, and a question that is asked later, leaves more: the
``most`` state dates charges as early and questions as late as they can be, the ``least`` state the other way round.
Whatever was admitted must fit the first, whatever was refused must not fit the second: exact, without a tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from schemas.limit_policy import Terms

TOKEN_BUCKET, SLIDING, FIXED = 0, 1, 2
_CARRIED: Final = (TOKEN_BUCKET, FIXED)


@dataclass(slots=True)
class ExactCounter:
    """One counter in whole numbers. Times are microseconds since the epoch; they never go back."""

    terms: Terms
    debt: int = 0  # of a token bucket, in token-ticks
    at: int = 0  # tick of the debt
    counts: dict[int, int] = field(default_factory=dict)  # of windows, by slot

    def available(self, now_us: int) -> int:
        """Whole tokens that a request may take."""
        t, now = self.terms, self._tick(now_us)
        if t.algorithm == TOKEN_BUCKET:
            return (t.capacity * t.period - self._debt(now)) // t.period
        slot = t.period // t.slots
        here, offset = divmod(now, slot)
        whole = sum(count for at, count in self.counts.items() if at > here - t.slots)
        if t.algorithm == FIXED:
            return t.capacity - whole
        fading = self.counts.get(here - t.slots, 0) * (slot if t.strict else slot - offset)
        return ((t.capacity - whole) * slot - fading) // slot

    def charge(self, now_us: int, cost: int) -> None:
        """Something was admitted."""
        t, now = self.terms, self._tick(now_us)
        if t.algorithm == TOKEN_BUCKET:
            self.debt, self.at = self._debt(now) + cost * t.period, now
            return
        slot = now // (t.period // t.slots)
        self.counts = {at: count for at, count in self.counts.items() if at >= slot - t.slots}
        self.counts[slot] = self.counts.get(slot, 0) + cost
        self.at = now

    def carry_over(self, terms: Terms, read_us: int, placed_us: int) -> None:
        """Another version of the policy: what was used until ``read_us`` counts as used at ``placed_us``."""
        if terms.algorithm not in _CARRIED or self.terms.algorithm != terms.algorithm:
            raise ValueError("only token buckets and fixed windows are carried over here")
        used = min(self.terms.capacity - self.available(read_us), max(terms.capacity, self.terms.capacity))
        self.terms, self.debt, self.counts = terms, 0, {}
        self.at = placed_us // terms.tick_us
        if used:
            self.charge(placed_us, used)

    def _tick(self, now_us: int) -> int:
        return max(now_us // self.terms.tick_us, self.at)

    def _debt(self, now: int) -> int:
        return max(0, self.debt - self.terms.refill * (now - self.at))


class BracketedCounter:
    """One counter between what it can have held at most and at least."""

    def __init__(self, terms: Terms) -> None:
        self.most, self.least = ExactCounter(terms), ExactCounter(terms)

    def charge(self, asked_us: int, answered_us: int, cost: int) -> None:
        """Admitted at some time between the two."""
        self.most.charge(asked_us, cost)
        self.least.charge(answered_us, cost)

    def carry_over(self, terms: Terms, asked_us: int, answered_us: int) -> None:
        """The first decision of another version was made at some time between the two."""
        self.most.carry_over(terms, answered_us, asked_us)
        self.least.carry_over(terms, asked_us, answered_us)


def bound(versions: list[Terms], first_us: int, last_us: int) -> int:
    """The most that one counter may admit between two times, whatever happens: the promise of limiter/README.md."""
    return max(_bound(terms, first_us, last_us) for terms in versions)


def _bound(terms: Terms, first_us: int, last_us: int) -> int:
    ticks = (last_us - first_us) // terms.tick_us + 1
    if terms.algorithm == TOKEN_BUCKET:
        return terms.capacity + ticks * terms.refill // terms.period
    if terms.algorithm == FIXED:
        window_us = terms.period * terms.tick_us
        return terms.capacity * (last_us // window_us - first_us // window_us + 1)
    quiet = max(terms.period - terms.period // terms.slots, 1)
    return terms.capacity * -(-ticks // quiet)
