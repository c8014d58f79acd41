"""What is given back of a settled lease: never more than it added, once, and not before the lease is settled."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

import pytest

from schemas.limiter.limit_terms import Terms
from tests.gate import examples
from tests.property.limiter.test_limiter_script import BASE, LEASE_TICKS, OK, STALE_EPOCH, Counter, call, server
from tests.seeds import seeds
from tests.worlds.limiter.limit_oracle import FIXED, SLIDING, TOKEN_BUCKET

if TYPE_CHECKING:
    import redis

__all__ = ["server"]  # the fixture of this module
pytestmark = pytest.mark.servers
CALENDAR = 4  # the algorithm
CAPACITY = 10_000
TERMS = [
    Terms(TOKEN_BUCKET, CAPACITY, 7, 10_000, 1, 1_000, False),
    Terms(TOKEN_BUCKET, CAPACITY, 1, 3_600_000, 1, 1_000, False),
    Terms(SLIDING, CAPACITY, CAPACITY, 60_000, 1, 1_000, False),
    Terms(SLIDING, CAPACITY, CAPACITY, 60_000, 10, 1_000, False),
    Terms(SLIDING, CAPACITY, CAPACITY, 60_000, 6, 1_000, True),
    Terms(FIXED, CAPACITY, CAPACITY, 60_000, 1, 1_000, False),
]
NOW = BASE // 1_000_000 * 1_000 // 60_000 * 60_000  # milliseconds, where a window begins


class Given(Counter):
    """A bucket of which can be given back."""

    def credit(self, now: int, charged: int, cost: int, rid: str = "r", lease: str = "l1", epoch: int = 0) -> list[int]:
        tick = self.terms.tick_us
        head = struct.pack("<6d", epoch, now * tick, cost, 60_000, charged * tick, 1)
        return call(
            self.server, "rl1_credit", ["rl:epoch", self.identity + rid, *self.keys], head, lease, "", self.packed()
        )

    def leased(self, now: int, spent: int) -> None:
        """So much was spent of a lease that was granted at that time, and is settled a second later."""
        assert self.call("rl1_decide", now, 0, want=100)[5] == 100
        assert self.call("rl1_settle", now + LEASE_TICKS, spent)[:2] == [OK, 100 - spent]

    def used(self, now: int) -> int:
        return self.call("rl1_peek", now, 0)[1]


@pytest.mark.parametrize("terms", TERMS, ids=str)
@pytest.mark.parametrize("seed", seeds(examples(2, 8)))
def test_no_bucket_ever_holds_less_than_if_it_had_been_charged_once(
    server: redis.Redis, terms: Terms, seed: int
) -> None:
    """Beside a bucket that had all but the second charge, at all times after, whatever came in between."""
    random_ = random.Random(seed)
    for _ in range(20):
        twice, once = Given(server, terms), Given(server, terms)
        cost, spent, now = random_.randint(1, 40), random_.randint(0, 60), NOW + random_.randint(0, 58_000)
        for _ in range(random_.randint(0, 3)):
            before, now = random_.randint(1, 200), now + random_.choice([0, 1, 400])
            assert {c.call("rl1_decide", now, before)[0] for c in (twice, once)} == {OK}
        twice.leased(now, spent + cost)
        once.leased(now, spent)
        charged, now = now + random_.randint(0, LEASE_TICKS), now + LEASE_TICKS
        credited = random_.randint(0, 3)
        for step in range(6):
            now += random_.choice([0, 1, 100, 1_000, 7_000, 60_000])
            if step == credited:
                held = twice.used(now)
                code, given = twice.credit(now, charged, cost)
                assert (code, twice.used(now)) == (OK, held - given) or terms.algorithm != FIXED
                assert 0 <= given <= cost
                assert twice.credit(now, charged, cost) == [OK, given]
            elif random_.random() < 0.5:
                assert {c.call("rl1_decide", now, 5)[0] for c in (twice, once)} == {OK}
            assert twice.used(now) >= once.used(now)


@pytest.mark.parametrize("terms", TERMS, ids=str)
def test_what_is_still_there_is_given_back_whole(server: redis.Redis, terms: Terms) -> None:
    slow = Terms(terms.algorithm, CAPACITY, 1, 3_600_000_000, 1, 1_000, False)
    counter = Given(server, slow if terms.algorithm == TOKEN_BUCKET else terms)
    counter.leased(NOW, 30)
    assert counter.used(NOW + 1_000) == 30
    assert counter.credit(NOW + 2_000, NOW + 500, 10) == [OK, 10]
    leaks = terms.algorithm == TOKEN_BUCKET  # a part of one has, and what is used is rounded up
    assert counter.used(NOW + 2_000) == 20 + leaks


@pytest.mark.parametrize("terms", TERMS, ids=str)
def test_a_lease_that_is_not_settled_is_not_touched(server: redis.Redis, terms: Terms) -> None:
    """Its settlement would charge it again. Afterwards it is given back, by the same call."""
    counter = Given(server, terms)
    counter.call("rl1_decide", NOW, 0, want=100)
    assert counter.credit(NOW + 10, NOW + 5, 10) == [OK, -1]
    counter.call("rl1_settle", NOW + 10, 30)
    assert counter.credit(NOW + 10, NOW + 10, 10) == [OK, 10]
    assert counter.used(NOW + 10) == 20


@pytest.mark.parametrize("terms", TERMS, ids=str)
@pytest.mark.parametrize("is_remembered", [True, False])
def test_a_lease_that_nobody_settled_in_time_is_charged_whole_first(
    server: redis.Redis, terms: Terms, is_remembered: bool
) -> None:
    """No decision came meanwhile that would have charged it; the store may even have let go of its name."""
    slow = Terms(terms.algorithm, CAPACITY, 1, 3_600_000_000, 1, 1_000, False)
    counter = Given(server, slow if terms.algorithm == TOKEN_BUCKET else terms)
    counter.call("rl1_decide", NOW, 0, want=100)
    if not is_remembered:
        server.delete(counter.keys[1])
    late = NOW + 11 * LEASE_TICKS + 1
    assert counter.credit(late, NOW + 500, 10) == [OK, 10]
    leaks = terms.algorithm == TOKEN_BUCKET  # a part of one has, and what is used is rounded up
    assert counter.call("rl1_peek", late, 0)[1:3] == [90 + leaks, 0]
    assert counter.call("rl1_settle", late, 30) == [OK, 0, 0]
    assert counter.credit(late, NOW + 500, 10) == [OK, 10]
    assert counter.used(late) == 90 + leaks


def test_of_a_window_that_is_over_nothing_is_given_back(server: redis.Redis) -> None:
    counter = Given(server, TERMS[-1])
    counter.leased(NOW, 30)
    assert counter.call("rl1_decide", NOW + 60_000, 50)[0] == OK
    assert counter.credit(NOW + 60_001, NOW + 500, 10) == [OK, 0]
    assert counter.used(NOW + 60_001) == 50


def test_of_a_calendars_window_that_is_over_nothing_is_given_back(server: redis.Redis) -> None:
    """In it, all; in the next one, nothing; and in one that the terms of the lease do not know, nothing either."""
    terms = Terms(CALENDAR, CAPACITY, NOW, 60_000, 60_000, 1_000, False)
    for now, given in ((NOW + 2_000, 10), (NOW + 61_000, 0), (NOW + 999_000, 0)):
        counter = Given(server, terms)
        counter.leased(NOW, 30)
        assert counter.credit(now, NOW + 500, 10) == [OK, given]


def test_a_gateways_clock_that_is_ahead_gives_back_no_more_than_was_charged(server: redis.Redis) -> None:
    for terms in TERMS:
        counter = Given(server, terms)
        counter.leased(NOW, 30)
        assert counter.credit(NOW + 1_001, NOW + 10**9, 10) == [OK, 10]
        assert counter.used(NOW + 1_001) >= 19  # one of a token bucket may have leaked


def test_an_empty_bucket_gives_nothing(server: redis.Redis) -> None:
    """A store that lost it, or never had it."""
    for terms in TERMS:
        counter = Given(server, terms)
        assert counter.credit(NOW, NOW, 10) == [OK, 0]
        assert counter.used(NOW) == 0


def test_a_stale_epoch_gives_nothing(server: redis.Redis) -> None:
    counter = Given(server, TERMS[-1])
    counter.leased(NOW, 30)
    assert counter.credit(NOW + 1_001, NOW, 10, epoch=7)[0] == STALE_EPOCH
    assert counter.used(NOW + 1_001) == 30
