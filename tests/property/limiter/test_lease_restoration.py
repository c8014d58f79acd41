"""What a store that lost its counters is told of leases: never more than was charged, and all of it where that is known."""

from __future__ import annotations

import math
import struct
from bisect import bisect_right
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from limiter.policy.level import LeaseTerms
from limiter.store.restoration import counts_for_us, used_at_least
from schemas.limiter.limit_terms import Terms
from tests.worlds.limiter.counter_server import policies, policy
from tests.worlds.limiter.limit_oracle import FIXED, SLIDING, TOKEN_BUCKET, Oracle

TICK_US = 1_000
PACKED = struct.Struct("<11d")
LIFE = 1_000  # ticks of a lease


class Lease(NamedTuple):
    """Ticks of its life at the store."""

    granted: int
    charged: int
    ends: int
    spent: int


@st.composite
def histories(draw: st.DrawFn, algorithm: int) -> tuple[LeaseTerms, list[Lease], int]:
    """Terms, leases as a store grants and charges them, and a time after the last charge."""
    period, capacity = draw(st.integers(10, 300)) * 600, draw(st.integers(1, 400))
    refill = draw(st.integers(1, capacity)) if algorithm == TOKEN_BUCKET else capacity
    slots = 6 if algorithm == SLIDING else 1
    terms = LeaseTerms(algorithm, capacity, refill, period, slots, TICK_US, 1, 0, capacity, LIFE, 0)
    at, leases = draw(st.integers(0, period)), []
    for gap, spent, late in draw(
        st.lists(st.tuples(st.integers(0, 40_000), st.integers(1, 50), st.integers(0, LIFE)), max_size=20)
    ):
        at += gap
        ends = min(at + LIFE, (at // period + 1) * period) if algorithm == FIXED else at + LIFE
        leases.append(Lease(at, min(at + late, ends - 1), ends, spent))
    now = max([at, *(lease.charged for lease in leases)]) + draw(st.integers(0, 2 * period))
    return terms, leases, now


@st.composite
def calendar_histories(draw: st.DrawFn) -> tuple[LeaseTerms, list[Lease], int, int]:
    """The same in windows of any lengths, and when the window of the end began; the newest lease may have been asked
    for with its own window first, or second."""
    capacity = draw(st.integers(1, 400))
    bounds = [draw(st.integers(0, 10**6))]
    for length in draw(st.lists(st.integers(2 * LIFE, 50_000), min_size=8, max_size=8)):
        bounds.append(bounds[-1] + length)
    starts = draw(st.lists(st.integers(bounds[1], bounds[-3] - 1), min_size=1, max_size=20).map(sorted))
    leases = []
    for at in starts:
        ends = min(at + LIFE, bounds[bisect_right(bounds, at)])
        charged = min(at + draw(st.integers(0, LIFE)), ends - 1)
        leases.append(Lease(at, charged, ends, draw(st.integers(1, 50))))
    first = bisect_right(bounds, starts[-1]) - 1 - draw(st.integers(0, 1))
    begin, end, next_end = bounds[first : first + 3]
    terms = LeaseTerms(4, capacity, begin, end - begin, next_end - end, TICK_US, 1, 0, capacity, LIFE, 0)
    now = draw(st.integers(max(lease.charged for lease in leases), bounds[-1] - 1))
    return terms, leases, now, bounds[bisect_right(bounds, now) - 1]


@given(calendar_histories())
def test_of_a_calendar_all_is_told_whose_lease_began_in_the_window(
    history: tuple[LeaseTerms, list[Lease], int, int],
) -> None:
    """And never what was spent in another one, however long the windows are."""
    terms, leases, now, began = history
    mine = [lease for lease in leases if lease.granted >= began]
    whole = [lease for lease in mine if lease.ends - lease.granted == LIFE]
    assert sum(lease.spent for lease in whole) <= told(terms, leases, now) <= sum(lease.spent for lease in mine)


def told(terms: LeaseTerms, leases: list[Lease], now: int) -> int:
    newest_first = sorted(((lease.ends * TICK_US, lease.spent) for lease in leases), reverse=True)
    return used_at_least(terms, newest_first, now * TICK_US)


def oracle(terms: LeaseTerms, charges: list[tuple[int, int]]) -> Oracle:
    found = Oracle(Terms(*terms[:6], strict=True))
    for at, spent in sorted(charges):
        found.charge(at, spent)
    return found


@given(st.sampled_from([TOKEN_BUCKET, SLIDING, FIXED]).flatmap(histories))
def test_a_store_that_lost_nothing_is_told_nothing_new(history: tuple[LeaseTerms, list[Lease], int]) -> None:
    """Whenever within its life a lease was charged."""
    terms, leases, now = history
    charged = oracle(terms, [(lease.charged, lease.spent) for lease in leases])
    assert told(terms, leases, now) <= math.ceil(terms.capacity - charged.exact(now))


@given(histories(TOKEN_BUCKET))
def test_of_a_bucket_everything_that_has_not_leaked_is_told(history: tuple[LeaseTerms, list[Lease], int]) -> None:
    terms, leases, now = history
    charged = oracle(terms, [(lease.granted, lease.spent) for lease in leases])
    assert told(terms, leases, now) == math.floor(terms.capacity - charged.exact(now))


@given(histories(FIXED))
def test_of_a_window_everything_is_told_whose_lease_began_in_it(history: tuple[LeaseTerms, list[Lease], int]) -> None:
    terms, leases, now = history
    mine = [lease for lease in leases if lease.granted // terms.period == now // terms.period]
    whole = [lease for lease in mine if lease.ends - lease.granted == LIFE]
    assert sum(lease.spent for lease in whole) <= told(terms, leases, now) <= sum(lease.spent for lease in mine)


@given(histories(SLIDING))
def test_of_a_sliding_window_everything_is_told_that_began_within_it(
    history: tuple[LeaseTerms, list[Lease], int],
) -> None:
    terms, leases, now = history
    assert told(terms, leases, now) == sum(lease.spent for lease in leases if lease.granted >= now - terms.period)


def test_only_windows_longer_than_a_minute_are_worth_it() -> None:
    def counts(**changes: object) -> int:
        (level,) = policies(policy(**changes)).levels({"tenant": "t", "user": "u", "route": "/r"})
        return counts_for_us(level.plain_terms)

    assert counts(window_ms=60_000) == 0
    assert counts(window_ms=61_000) == 61_000_000
    assert counts(algorithm="sliding_window", window_ms=90_000) == 90_000_000
    bucket = {"algorithm": "token_bucket", "window_ms": None, "refill_period_ms": 1_000}
    assert counts(**bucket, capacity=1_000, refill_rate=10) == 100_000_000
    assert counts(**bucket, capacity=600, refill_rate=10) == 0
    assert counts_for_us(b"") == 0
    month = LeaseTerms(4, 9, 1_000, 28 * 86_400, 31 * 86_400, 1_000_000, 1, 0, 9, 5, 0)
    assert counts_for_us(PACKED.pack(*month)) == 31 * 86_400 * 1_000_000
