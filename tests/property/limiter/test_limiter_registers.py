"""What leases are told of, and what a new primary is told: leases that it does not know, and what the old one may have charged and not passed on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.property.limiter.test_limiter_script import BASE, DENIED, LEASE_TICKS, OK, TERMS, Counter, server
from tests.worlds.limiter.limit_oracle import TOKEN_BUCKET

if TYPE_CHECKING:
    import redis

    from schemas.limiter.limit_terms import Terms

pytestmark = pytest.mark.servers
__all__ = ["server"]  # the fixture
HUNDREDS = [t for t in TERMS if t.capacity == 100]


@pytest.mark.parametrize("terms", HUNDREDS, ids=str)
def test_leases_that_are_registered_never_pass_the_capacity(server: redis.Redis, terms: Terms) -> None:
    """What was charged is kept, the leases get what is left of it, and the one for which nothing is left gets none."""
    counter, now = Counter(server, terms), BASE // terms.tick_us
    assert counter.call("rl1_decide", now, 70)[0] == OK
    assert [counter.call("rl1_register", now, 20, lease=lease) for lease in "xyz"] == [[OK, 20], [OK, 10], [OK, 0]]
    assert counter.call("rl1_peek", now, 0)[1:4] == [70, 30, 0]
    assert counter.call("rl1_settle", now, 20, lease="y") == [OK, 0, 10]
    assert counter.call("rl1_settle", now, 20, lease="z") == [OK, 0, 0]
    assert counter.call("rl1_peek", now, 0)[1:4] == [80, 20, 0]


def test_a_short_lease_that_is_registered_forgets_no_longer_one(server: redis.Redis) -> None:
    """One that is forgotten while others are held would be reserved for ever."""
    envoys = Counter(server, HUNDREDS[0])
    envoys.life *= 10
    gateway, now = Counter(server, HUNDREDS[0]), BASE // HUNDREDS[0].tick_us
    gateway.keys = envoys.keys
    assert envoys.call("rl1_decide", now, 0, want=20)[5] == 20
    kept_ms = server.pttl(envoys.keys[1])
    assert gateway.call("rl1_register", now, 20, lease="x") == [OK, 20]
    assert kept_ms - 60_000 < server.pttl(envoys.keys[1]) <= kept_ms


@pytest.mark.parametrize("terms", HUNDREDS, ids=str)
def test_what_may_have_been_lost_is_charged_once_and_as_far_as_there_is_room(server: redis.Redis, terms: Terms) -> None:
    counter, now = Counter(server, terms), BASE // terms.tick_us
    assert counter.call("rl1_decide", now, 70)[0] == OK
    assert [counter.call("rl1_owe", now, 20, rid=mark) for mark in "aab"] == [[OK, 20], [OK, 0], [OK, 10]]
    assert counter.call("rl1_peek", now, 0)[1:4] == [100, 0, 0]
    assert min(server.pttl(key) for key in (f"{counter.identity}a", *counter.keys[:1])) > 0


@pytest.mark.parametrize("terms", [t for t in TERMS if t.capacity == 10**6], ids=str)
def test_while_leases_would_be_enough_nobody_is_told_to_wait_longer_than_they_live(
    server: redis.Redis, terms: Terms
) -> None:
    counter, now = Counter(server, terms), BASE // terms.tick_us
    now -= now % terms.period
    granted = counter.call("rl1_decide", now, 1, want=1_000)[5]
    refused = counter.call("rl1_decide", now, terms.capacity - 1)
    assert (refused[0], granted) == (DENIED, 1_000)
    assert 0 < refused[3] <= LEASE_TICKS * terms.tick_us
    too_much = counter.call("rl1_decide", now, terms.capacity)  # the request above was charged 1: no lease helps
    assert too_much[3] > LEASE_TICKS * terms.tick_us or terms.algorithm == TOKEN_BUCKET
    counter.call("rl1_settle", now, 0)
    assert counter.call("rl1_decide", now, terms.capacity - 1)[0] == OK
