"""An adversary who knows the window's edges, and a clock that is set: what is the most that passes?

Trap 6 of the limiter: twice the limit across an edge, a sliding window that is said to hold 1 + 1/S of it and does not,
a reset that wobbles. The adversary takes all that there is, at every choice of moments; the worst choice found with
exact fractions is then played on the real server.
"""

from __future__ import annotations

import itertools
import math
import random
import struct
from typing import TYPE_CHECKING

import pytest

from limiter.policy.policies import PolicySet
from schemas.limiter.limit_terms import Terms
from tests.property.limiter.test_limiter_script import OK, Counter, call, server
from tests.seeds import seeds
from tests.worlds.limiter.counter_server import policy
from tests.worlds.limiter.limit_oracle import FIXED, SLIDING, Oracle

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import redis

pytestmark = pytest.mark.servers
__all__ = ["server"]  # the fixture of this module
LIMIT = 120
PERIOD = 1_200
TICK_US = 1_000_000  # seconds: what the server keeps until its own clock says so outlives any pause of this machine
BASE = 1_800_000_000  # the size of real clocks in these ticks


def moments(terms: Terms) -> list[int]:
    """The first tick and the last two of some slots over two windows."""
    slot = terms.period // terms.slots
    edges = range(0, 2 * terms.period + 1, slot * -(-terms.slots // 4))
    return [BASE + at for edge in edges for at in (edge, edge + slot - 2, edge + slot - 1)]


def taken(terms: Terms, chosen: Iterable[int]) -> Oracle:
    """What an adversary gets who takes all that there is at these moments."""
    oracle = Oracle(terms)
    for now in chosen:
        if (some := oracle.available(now)) > 0:
            oracle.charge(now, some)
    return oracle


def worst(terms: Terms, span: int) -> tuple[int, Sequence[int]]:
    """The most that passes in any ``span`` ticks, and at which moments it is taken."""
    found: tuple[int, Sequence[int]] = (0, ())
    at = sorted(set(moments(terms)))
    for size in range(1, 4):
        for chosen in itertools.combinations(at, size):
            charges = taken(terms, chosen).charges
            for begin, _ in charges:
                passed = sum(cost for tick, cost in charges if begin <= tick < begin + span)
                if passed > found[0]:
                    found = (passed, chosen)
    return found


def sliding(slots: int, *, strict: bool = False) -> Terms:
    return Terms(SLIDING, LIMIT, LIMIT, PERIOD, slots, TICK_US, strict)


@pytest.mark.parametrize("slots", [1, 2, 3, 4, 6, 8, 12])
def test_a_sliding_window_lets_less_than_twice_the_limit_through(server: redis.Redis, slots: int) -> None:
    terms = sliding(slots)
    most, chosen = worst(terms, PERIOD)
    assert most < 2 * LIMIT
    assert most > 1.9 * LIMIT  # the adversary is a good one: 1 + 1/S is not a bound
    assert played(server, terms, chosen) == [cost for _, cost in taken(terms, chosen).charges]


@pytest.mark.parametrize("slots", [2, 3, 4, 6, 8, 12])
def test_over_all_but_one_slot_a_sliding_window_holds_its_limit(slots: int) -> None:
    terms = sliding(slots)
    most, _ = worst(terms, PERIOD - PERIOD // slots)
    assert most == LIMIT


@pytest.mark.parametrize("slots", [1, 2, 3, 4, 6, 8, 12])
def test_a_strict_window_holds_its_limit_over_any_window(server: redis.Redis, slots: int) -> None:
    terms = sliding(slots, strict=True)
    most, chosen = worst(terms, PERIOD)
    assert most == LIMIT
    assert played(server, terms, chosen) == [cost for _, cost in taken(terms, chosen).charges]


def test_a_fixed_window_holds_its_limit_and_twice_of_it_across_an_edge(server: redis.Redis) -> None:
    terms = Terms(FIXED, LIMIT, LIMIT, PERIOD, 1, TICK_US, strict=False)
    most, chosen = worst(terms, PERIOD)
    assert most == 2 * LIMIT
    assert played(server, terms, chosen) == [cost for _, cost in taken(terms, chosen).charges]


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("guard", [1, LIMIT // 10, LIMIT])
def test_a_guarded_window_holds_little_more_than_its_limit_over_any_interval(
    server: redis.Redis, guard: int, seed: int
) -> None:
    """An adversary who takes all that there is, at the edges of windows and at any time: C in a window, C + guard in any.

    A refusal by either counter charges neither, and the wait that is told is the least one.
    """
    scope = {"tenant": "t", "user": "*", "route": "*"}
    found = policy(capacity=LIMIT, window_ms=PERIOD * 1_000, scope=scope, boundary_guard=guard, consistency="exact")
    levels = PolicySet([found], 1).levels({"tenant": "t", "user": "u", "route": "/r"})
    counters = [Counter(server, level.terms) for level in levels]
    assert [counter.terms.capacity for counter in counters] == [LIMIT, guard]
    tick_us, random_ = counters[0].terms.tick_us, random.Random(seed)
    now, period = BASE * TICK_US // tick_us, counters[0].terms.period
    passed: list[tuple[int, int]] = []
    for _ in range(120):
        at_edge = period - now % period - random_.choice([0, 1, 1, period // guard + 1])
        now += max(0, random_.choice([at_edge, 0, random_.randint(0, period // 3)]))
        room = min(counter.call("rl1_decide", now, 0)[1] for counter in counters)
        if room:
            assert decided(server, counters, now, room)[0] == OK
            passed.append((now, room))
        refused = decided(server, counters, now, 1)
        assert refused[0] != OK
        wait = max(refused[3], refused[9]) // tick_us
        oracle = Oracle(counters[0].terms, list(passed)), Oracle(counters[1].terms, list(passed))
        assert all(each.allows(now + wait, 1) for each in oracle)
        assert not all(each.allows(now + wait - 1, 1) for each in oracle)
    most = max(sum(cost for at, cost in passed if begin <= at <= begin + period) for begin, _ in passed)
    assert most <= LIMIT + guard
    windows = {at // period for at, _ in passed}
    assert max(sum(cost for at, cost in passed if at // period == window) for window in windows) <= LIMIT


def decided(server: redis.Redis, counters: Sequence[Counter], now: int, cost: int) -> list[int]:
    """One request over all of them."""
    head = struct.pack("<6d", 0, now * counters[0].terms.tick_us, cost, 0, 0, len(counters))
    keys = ["rl:epoch", "", *(key for counter in counters for key in counter.keys)]
    return call(server, "rl1_decide", keys, head, "l", "", *(counter.packed() for counter in counters))


def played(server: redis.Redis, terms: Terms, chosen: Iterable[int]) -> list[int]:
    """What the real server lets through to the same adversary, who asks for one more first and is refused."""
    counter, passed = Counter(server, terms), []
    for now in chosen:
        _, available, *_ = counter.call("rl1_decide", now, 0)
        assert counter.call("rl1_decide", now, available + 1)[0] != OK
        if available:
            assert counter.call("rl1_decide", now, available)[0] == OK
            passed.append(available)
    return passed


@pytest.mark.parametrize("algorithm", [FIXED, SLIDING])
@pytest.mark.parametrize("step", [-5_000, 5_000])
def test_a_clock_that_is_set_moves_no_reset(server: redis.Redis, algorithm: int, step: int) -> None:
    """Five seconds back in the middle of a window: it ends when it would have. Forward: windows are those of the clock."""
    terms = Terms(algorithm, LIMIT, LIMIT, 60_000, 1, 1_000, strict=False)
    counter = Counter(server, terms)
    now = BASE * 1_000
    begin = now - now % 60_000
    _, _, reset_us, *_ = counter.call("rl1_decide", begin + 30_000, LIMIT)
    ends = begin + 30_000 + reset_us // 1_000
    assert ends >= begin + 60_000
    code, _, reset_us, *_ = counter.call("rl1_decide", begin + 30_000 + step, 1)
    seen = begin + 30_000 + max(step, 0)  # the counter's own time never goes back
    assert code != OK
    assert seen + reset_us // 1_000 == ends
    assert counter.call("rl1_decide", begin + 59_999, LIMIT)[0] != OK
    after = math.ceil(ends / 60_000) * 60_000
    assert counter.call("rl1_decide", after, LIMIT)[0] == OK
