"""Permits of concurrency limits at the store: by whom they are held, until when, and by which version of a policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
import redis

from schemas.limiter.limit_terms import Terms
from tests.property.limiter.test_limiter_script import BASE, DENIED, DUPLICATE, OK, PERMITS, Counter, server
from tests.worlds.limiter.limiter_kinds import FunctionsRedis

pytestmark = pytest.mark.servers
__all__ = ["server"]  # the fixture of this module
#: a golden copy, under a name of its own
BEFORE: Final = (
    (Path(__file__).parents[2] / "worlds" / "limiter" / "functions_before" / "rl1.lua")
    .read_text()
    .replace("rl1", "rl0")
)


def test_permits_are_held_until_they_are_given_back_or_end(server: redis.Redis) -> None:
    counter = Counter(server, Terms(3, 2, 2, 5_000, 1, 1_000, strict=False))
    now = BASE // 1_000
    assert counter.call("rl1_decide", now, 1, rid="a")[0] == OK
    assert counter.call("rl1_decide", now + 1_000, 1, rid="b")[0] == OK
    refused = counter.call("rl1_decide", now + 2_000, 1, rid="c")
    assert (refused[0], refused[3]) == (DENIED, 3_000_000)  # the first ends by itself then
    assert counter.call("rl1_refund", now + 2_000, 0, rid="b") == [OK, 1]
    assert counter.call("rl1_decide", now + 2_000, 1, rid="c")[0] == OK
    assert counter.call("rl1_decide", now + 5_001, 1, rid="d")[0] == OK  # the first has ended


def test_a_request_of_many_permits_is_one_member_and_a_refused_one_holds_none(server: redis.Redis) -> None:
    """A million permits cost the store what one does: both are counted by members, not by time."""
    million = 1_000_000
    counter, now = Counter(server, Terms(3, million, million, 5_000, 1, 1_000, strict=False)), BASE // 1_000
    assert counter.call("rl1_decide", now, million + 1, rid="a")[:4] == [DENIED, million, 0, -1]
    assert server.exists(counter.keys[0]) == 0
    assert counter.call("rl1_decide", now, million - 1, rid="b")[:2] == [OK, 1]
    assert counter.call("rl1_decide", now, 1, rid="c")[:2] == [OK, 0]
    assert server.zcard(counter.keys[0]) == 2
    assert server.zcard(counter.keys[1]) <= 3  # and which version decides
    assert counter.call("rl1_decide", now + 1_000, 2, rid="d")[:4] == [DENIED, 0, 4_000_000, 4_000_000]
    assert counter.call("rl1_release", now, 7, rid="b") == [OK, million - 1]  # told with another cost
    assert counter.call("rl1_release", now, million - 1, rid="b") == [OK, 0]
    assert counter.call("rl1_peek", now, 0)[1:4] == [1, 0, million - 1]


def test_a_permit_of_the_functions_before_is_given_back_by_its_request_id(server: redis.Redis) -> None:
    counter, now = Counter(server, Terms(3, 3, 3, 5_000, 1, 1_000, strict=False)), BASE // 1_000
    server.zadd(counter.keys[0], {"a:1": now + 5_000})
    assert counter.call("rl1_decide", now, 1, rid="b")[:2] == [OK, 1]
    assert [counter.call("rl1_release", now, 1, rid=name) for name in "aab"] == [[OK, 1], [OK, 0], [OK, 1]]
    assert counter.call("rl1_peek", now, 0)[1] == 0


@pytest.mark.parametrize("function", ["rl1_refund", "rl1_release"])
@pytest.mark.parametrize(
    ("told", "taken_back", "held"),
    [
        ("a", "a", 0),
        ("b", "a", 1),  # the call of the gateway that refused never came
        ("ab", "a", 1),
        ("ba", "a", 1),  # it came late
        ("aba", "a", 1),
        ("aa", "a", 0),
        ("ab", "ab", 0),  # both refused
        ("ab", "aa", 1),
        ("ab", ["l1"], 0),  # whose end is known, wherever it ran: no gateway is named
    ],
)
def test_a_gateway_takes_back_what_no_other_one_was_told(
    server: redis.Redis, function: str, told: str, taken_back: str | list[str], held: int
) -> None:
    counter, now = Counter(server, permits_of(3)), BASE // 1_000
    for at, gateway in enumerate(told):
        answer = counter.call("rl1_decide", now, 1, rid="r", lease=lease_of(gateway, at))
        assert answer[:2] == [DUPLICATE if at else OK, 2]
    for at, gateway in enumerate(taken_back):
        counter.call(function, now, 0 if function == "rl1_refund" else 1, rid="r", lease=lease_of(gateway, 7 + at))
    assert counter.call("rl1_peek", now, 0)[1] == held
    assert counter.call("rl1_release", now, 1, rid="r") == [OK, held]


def test_nobody_takes_back_what_functions_before_these_decided(server: redis.Redis) -> None:
    """They did not note who was told: it is another gateway's."""
    counter, now = Counter(server, permits_of(3)), BASE // 1_000
    assert counter.call("rl1_decide", now, 1, rid="r")[0] == OK  # no gateway is named
    for function in ("rl1_refund", "rl1_release"):
        counter.call("rl1_decide", now, 1, rid="r", lease=lease_of("a", 1))
        assert counter.call(function, now, 0, rid="r", lease=lease_of("a", 2)) == [OK, 0]
    assert counter.call("rl1_refund", now, 0, rid="r") == [OK, 1]


@pytest.fixture
def before(server: redis.Redis) -> redis.Redis:
    """The same store, asked by the functions of a release that did not note who was told."""
    if not isinstance(server, FunctionsRedis):
        pytest.skip("the same text as a script")
    server.function_load(BEFORE, replace=True)
    return BeforeRedis.from_pool(server.connection_pool)


class BeforeRedis(redis.Redis):
    """Calls the functions of the golden copy by the names that it is loaded under."""

    def fcall(self, function: str, numkeys: int, *keys_and_arguments: Any) -> Any:
        return super().fcall(function.replace("rl1", "rl0"), numkeys, *keys_and_arguments)


def both(server: redis.Redis, before: redis.Redis, capacity: int = 5) -> tuple[Counter, Counter]:
    """One bucket as gateways of both releases see it."""
    counter, older = Counter(server, permits_of(capacity)), Counter(before, permits_of(capacity))
    older.keys, older.identity = counter.keys, counter.identity
    return counter, older


@pytest.mark.parametrize("function", ["rl1_refund", "rl1_release"])
@pytest.mark.parametrize("cost", [1, 2])
@pytest.mark.parametrize("comes_again", [False, True])
def test_an_older_gateway_takes_back_no_permit_that_one_of_these_uses(
    server: redis.Redis, before: redis.Redis, comes_again: bool, cost: int, function: str
) -> None:
    """It asks nobody who was told. What it was told itself it holds beside it, and takes back."""
    (counter, older), now = both(server, before), BASE // 1_000
    assert counter.call("rl1_decide", now, cost, rid="r", lease=lease_of("a", 1))[0] == OK
    if comes_again:
        assert older.call("rl1_decide", now, cost, rid="r")[0] == DUPLICATE
        assert [one.call("rl1_peek", now, 0)[1] for one in (counter, older)] == [2 * cost] * 2
    older.call(function, now, 0 if function == "rl1_refund" else cost, rid="r")
    assert [one.call("rl1_peek", now, 0)[1] for one in (counter, older)] == [cost] * 2
    assert counter.call("rl1_release", now, cost, rid="r") == [OK, cost]
    assert counter.call("rl1_peek", now, 0)[1] == 0


def test_what_an_older_gateway_was_told_is_freed_by_whom_its_end_is_told(
    server: redis.Redis, before: redis.Redis
) -> None:
    """The request that comes again here holds nothing more; who refused it here takes nothing back."""
    (counter, older), now = both(server, before), BASE // 1_000
    assert older.call("rl1_decide", now, 2, rid="r")[0] == OK
    assert counter.call("rl1_decide", now, 2, rid="r", lease=lease_of("a", 1))[0] == DUPLICATE
    for function in ("rl1_refund", "rl1_release"):
        assert counter.call(function, now, 2, rid="r", lease=lease_of("a", 2)) == [OK, 0]
    assert counter.call("rl1_peek", now, 0)[1] == 2
    assert counter.call("rl1_release", now, 2, rid="r") == [OK, 2]


def test_who_takes_back_late_leaves_alone_what_an_older_gateway_was_told_since(
    server: redis.Redis, before: redis.Redis
) -> None:
    (counter, older), now = both(server, before), BASE // 1_000
    assert counter.call("rl1_decide", now, 1, rid="r", lease=lease_of("a", 1))[0] == OK
    assert older.call("rl1_decide", now + 5_001, 1, rid="r")[0] == DUPLICATE  # the first ended by itself
    assert counter.call("rl1_release", now + 5_001, 1, rid="r", lease=lease_of("a", 2)) == [OK, 0]
    assert counter.call("rl1_peek", now + 5_001, 0)[1] == 1


def lease_of(gateway: str, number: int) -> str:
    """As a limiter names its own."""
    return f"g1.{gateway * 8}.{number}" if len(gateway) == 1 else gateway


def test_costs_of_permits_are_known_where_the_functions_before_kept_them(server: redis.Redis) -> None:
    """Under the name of leases: what is held there still counts as much, and leases find the name free."""
    counter, now = Counter(server, permits_of(9)), BASE // 1_000
    assert counter.call("rl1_decide", now, 5, rid="a")[:2] == [OK, 4]
    counter.keys[1] = counter.keys[1].removesuffix("l") + "p"
    assert counter.call("rl1_decide", now, 1, rid="b")[:2] == [OK, 3]
    assert server.exists(counter.keys[1].removesuffix("p") + "l") == 0
    assert counter.call("rl1_release", now, 5, rid="a") == [OK, 5]


def test_the_newest_version_decides_for_every_gateway(server: redis.Redis) -> None:
    """A gateway that knows an older one is told what the newest allows, also when that has only refused."""
    old, now = Counter(server, permits_of(5)), BASE // 1_000
    new = versioned(old, permits_of(2, life=50_000), 2)
    assert [old.call("rl1_decide", now, 1, rid=name)[:2] for name in "abc"] == [[OK, 4], [OK, 3], [OK, 2]]
    assert new.call("rl1_decide", now, 1, rid="d")[:5:4] == [DENIED, 2]
    refused = old.call("rl1_decide", now, 1, rid="e")
    assert (refused[0], refused[4]) == (DENIED, 2)
    assert [old.call("rl1_release", now, 1, rid=name) for name in "ab"] == [[OK, 1]] * 2
    assert old.call("rl1_decide", now, 1, rid="f")[:2] == [OK, 0]
    assert old.call("rl1_decide", now + 5_000, 1, rid="g")[:2] == [OK, 0]  # c has ended; f lasts as the newest says
    third = versioned(old, permits_of(4), 3)
    assert third.call("rl1_decide", now + 5_000, 1, rid="h")[:2] == [OK, 1]
    assert [one.call("rl1_peek", now + 5_000, 0)[1:] for one in (old, new, third)] == [[3, 0, 1, 5_000_000, 3]] * 3
    assert 0 < server.pttl(old.keys[0]) <= 51_000
    assert 0 < server.pttl(old.keys[1]) <= 51_000


def test_a_version_of_another_clock_counts_what_is_held(server: redis.Redis) -> None:
    """Permits keep the ticks that they began with, whatever the finest exact clock of a later version is."""
    coarse, now = Counter(server, permits_of(3)), BASE // 1_000
    fine = versioned(coarse, Terms(PERMITS, 4, 4, 5_000_000, 1, 1, strict=False), 2)
    assert coarse.call("rl1_decide", now, 2, rid="a")[:2] == [OK, 1]
    assert fine.call("rl1_decide", now * 1_000, 1, rid="b")[:3] == [OK, 1, 5_000_000]
    assert fine.call("rl1_decide", (now + 5_000) * 1_000 + 1, 1, rid="c")[:2] == [OK, 3]
    assert fine.call("rl1_peek", (now + 10_001) * 1_000, 0)[1] == 0


def permits_of(capacity: int, life: int = 5_000) -> Terms:
    return Terms(PERMITS, capacity, capacity, life, 1, 1_000, strict=False)


def versioned(counter: Counter, terms: Terms, version: int) -> Counter:
    """The same bucket as a gateway with this version of its policy asks for it."""
    found = Counter(counter.server, terms, version)
    found.keys, found.identity = counter.keys, counter.identity
    return found
