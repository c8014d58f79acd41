"""Versions of a policy: whatever follows on what, the store and the owner count what exact arithmetic counts."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from schemas.limiter.exact_counter import FIXED, SLIDING, TOKEN_BUCKET, ExactCounter
from schemas.limiter.limit_terms import Terms
from tests.gate import examples
from tests.property.limiter.test_limiter_script import BASE, DENIED, OK, Counter
from tests.seeds import seeds
from tests.worlds.limiter.limit_oracle import Oracle
from tests.worlds.limiter.limiter_kinds import with_functions

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from tests.servers import World

pytestmark = pytest.mark.servers
MS = 1_000


@pytest.fixture(scope="module")
def server(stack: World) -> Iterator[redis.Redis]:
    with with_functions(stack.addresses.redis_url) as found:
        yield found


def minute(
    algorithm: int, capacity: int = 100, *, slots: int = 1, strict: bool = False, window_ms: int = 60_000
) -> Terms:
    """A policy of milliseconds."""
    return Terms(algorithm, capacity, capacity, window_ms, slots, MS, strict)


KINDS = [
    minute(TOKEN_BUCKET),
    minute(TOKEN_BUCKET, 40, window_ms=7_000),
    Terms(TOKEN_BUCKET, 100, 7, 59_821_200, 1, 1, strict=False),
    minute(FIXED),
    minute(FIXED, 30, window_ms=20_000),
    minute(SLIDING, slots=6),
    minute(SLIDING, 60, slots=6),
    minute(SLIDING, slots=6, strict=True),
    minute(SLIDING, slots=1),
    minute(SLIDING, slots=12, window_ms=120_000),  # slots of the same length
    Terms(SLIDING, 100, 100, 60_000_000, 6, 1, strict=False),  # the same by a finer clock
    minute(SLIDING, 250, slots=5, window_ms=300_000),
]


def answers(found: ExactCounter, now_us: int, cost: int) -> tuple[int, int, int, int]:
    """Whether it passes, what is left then, and both waits, as the store tells them."""
    fits = cost <= found.available(now_us)
    wait_us = 0 if fits else found.retry_us(now_us, cost)
    if fits:
        found.charge(now_us, cost)
    return OK if fits else DENIED, max(0, found.available(now_us)), found.reset_us(now_us), wait_us


@pytest.mark.parametrize("seed", seeds(examples(6, 60)))
def test_the_store_and_the_owner_count_versions_alike(server: redis.Redis, seed: int) -> None:
    """Any sequence of algorithms, capacities, windows, slots and clocks; an older gateway asks in between."""
    random_ = random.Random(seed)
    terms = random_.choice(KINDS)
    counter, exact, now_us = Counter(server, terms), ExactCounter(terms), BASE - BASE % 1_000_000
    older = counter
    for _ in range(120):
        now_us += random_.choice([0, 1_000, 700_000, 3_000_000, 10_000_000, 61_000_000])
        if random_.random() < 0.15:
            older, terms = counter, random_.choice(KINDS)
            counter = Counter(server, terms, version=counter.version + 1)
            counter.keys, counter.identity = older.keys, older.identity
            exact.carry_over(terms, now_us, now_us)
            assert answers(exact, now_us, 0) == told(counter, now_us, 0)
        cost = random_.choice([0, 1, 5, terms.capacity // 3, terms.capacity])
        asks = random_.choice([counter, counter, older])
        assert told(asks, now_us, cost) == answers(exact, now_us, cost), (terms, now_us, cost)


def told(counter: Counter, now_us: int, cost: int) -> tuple[int, int, int, int]:
    code, available, reset_us, wait_us, *_ = counter.call("rl1_decide", now_us // counter.terms.tick_us, cost)
    return code, available, reset_us, wait_us


@pytest.mark.parametrize("seed", seeds(examples(3, 20)))
@pytest.mark.parametrize("kind", ["store", "owner"])
def test_slots_of_the_same_length_age_as_if_nothing_had_been_published(
    server: redis.Redis, seed: int, kind: str
) -> None:
    """Against the whole history in fractions, which knows no versions but the one in force."""
    random_ = random.Random(seed)
    same = [minute(SLIDING, c, slots=6, strict=strict) for c in (100, 60, 140) for strict in (False, True)]
    counter, exact, oracle = Counter(server, same[0]), ExactCounter(same[0]), Oracle(same[0])
    now = BASE // MS
    for _ in range(80):
        now += random_.choice([0, 1, 900, 9_999, 10_000, 33_000, 70_000])
        if random_.random() < 0.3:
            terms = random_.choice(same)
            newer = Counter(server, terms, version=counter.version + 1)
            newer.keys, counter, oracle.terms = counter.keys, newer, terms
            exact.carry_over(terms, now * MS, now * MS)
        cost = random_.randint(0, 40)
        expected = (OK if oracle.allows(now, cost) else DENIED, oracle.available(now))
        if expected[0] == OK:
            oracle.charge(now, cost)
        found = told(counter, now * MS, cost) if kind == "store" else answers(exact, now * MS, cost)
        assert found[:2] == (expected[0], max(0, oracle.available(now)))


def test_what_an_idle_user_had_spent_does_not_begin_anew_with_a_version(server: redis.Redis) -> None:
    """Only ``audit`` changed: a full window of 60 s is refused for as long as without the publication."""
    terms = minute(SLIDING, slots=6)
    old, untouched = Counter(server, terms), Counter(server, terms)
    new = Counter(server, terms, version=2)
    new.keys = old.keys
    now = BASE // MS - BASE // MS % 10_000
    for counter in (old, untouched):
        assert counter.call("rl1_decide", now, 100)[0] == OK
    later = now + 56_000
    assert told(new, later * MS, 50) == told(untouched, later * MS, 50)
    assert told(new, (now + 66_000) * MS, 50)[0] == OK


def test_what_was_used_is_not_rounded_up_by_a_version(server: redis.Redis) -> None:
    """A bucket that owes a tenth of a token owes it afterwards, and a slot that has nearly faded does not count one."""
    old = Counter(server, Terms(TOKEN_BUCKET, 10, 1, 1_000, 1, MS, strict=False))
    new = Counter(server, Terms(TOKEN_BUCKET, 10, 2, 2_000, 1, MS, strict=False), version=2)
    new.keys, now = old.keys, BASE // MS
    assert old.call("rl1_decide", now, 1)[0] == OK
    assert told(new, (now + 900) * MS, 0) == (OK, 9, 100_000, 0)
    assert told(new, (now + 1_000) * MS, 10)[0] == OK


def test_lowering_twice_keeps_what_was_used_before(server: redis.Redis) -> None:
    """The second publication does not cut usage to the capacity of the first."""
    counters = [Counter(server, minute(FIXED, c), version=n + 1) for n, c in enumerate((100, 10, 60, 100))]
    exact, now = ExactCounter(counters[0].terms), BASE // MS
    for counter, cost, code in zip(counters, (100, 0, 0, 1), (OK, DENIED, DENIED, DENIED), strict=True):
        counter.keys = counters[0].keys
        exact.carry_over(counter.terms, now * MS, now * MS)
        assert told(counter, now * MS, cost)[0] == answers(exact, now * MS, cost)[0] == code


@pytest.mark.parametrize("kind", ["store", "owner"])
def test_a_sliding_window_is_reset_when_its_newest_slot_has_faded(server: redis.Redis, kind: str) -> None:
    terms = minute(SLIDING, slots=6)
    counter, exact = Counter(server, terms), ExactCounter(terms)
    now = BASE // MS - BASE // MS % 10_000

    def reset_ms(at: int, cost: int) -> int:
        found = told(counter, at * MS, cost) if kind == "store" else answers(exact, at * MS, cost)
        return found[2] // 1_000

    assert reset_ms(now, 0) == 0
    assert reset_ms(now + 500, 5) == 69_500
    assert [reset_ms(now + s * 1_000, 0) for s in (10, 35, 69, 70, 700)] == [60_000, 35_000, 1_000, 0, 0]
