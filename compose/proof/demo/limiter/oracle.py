"""What exact counters must answer, beside the store: the same policies computed from what clients saw alone.

A client knows when it asked and when it was answered, not when the store decided between the two. So every counter is
kept twice. In all three algorithms a charge that lies earlier, and a question that is asked later, leaves more: the
``most`` state dates charges as early and questions as late as they can be, the ``least`` state the other way round.
Whatever was admitted must fit the first, whatever was refused must not fit the second: exact, without a tolerance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from schemas.limiter.exact_counter import FIXED, TOKEN_BUCKET, ExactCounter

if TYPE_CHECKING:
    from schemas.limiter.limit_terms import Terms

_CARRIED: Final = (TOKEN_BUCKET, FIXED)


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
        if terms.algorithm not in _CARRIED or self.most.terms.algorithm != terms.algorithm:
            raise ValueError("only token buckets and fixed windows are carried over here")
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
