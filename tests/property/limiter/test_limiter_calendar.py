"""Calendar windows where they are counted, at the store and by the owner, against exact arithmetic and real zones."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from limiter.policy.level import Level
from limiter.policy.policies import PolicySet
from schemas.calendar_windows import LONGEST_S, Calendar, CalendarWindows, window_at, windows_from
from schemas.limiter import limits
from schemas.limiter.exact_counter import ExactCounter
from schemas.limiter.limit_terms import Terms
from tests.gate import examples
from tests.property.limiter.test_limiter_script import DENIED, LEASE_TICKS, NO_KEY, OK, WRONG, Counter, call, server
from tests.seeds import seeds
from tests.worlds.limiter.counter_server import policy
from tests.worlds.limiter.limit_oracle import FIXED, TOKEN_BUCKET, Oracle, window_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from schemas.limiter.limit_policy import LimitPolicy

pytestmark = pytest.mark.servers
__all__ = ["server"]  # the fixture of this module
SECOND = LIFE = 1_000_000  # the latter is of leases, in ticks of calendars
DAY_S = 86_400
SPRING = 1_774_746_000  # 2026-03-29 01:00 UTC: clocks of Europe go forward
CALENDARS = [
    ("hour", "Australia/Lord_Howe", 1_775_314_800),  # half an hour back
    ("day", "Europe/Berlin", SPRING),
    ("day", "Pacific/Apia", 1_325_239_200),  # a day is skipped
    ("week", "America/New_York", 1_793_512_800),  # an hour back
    ("month", "Asia/Kolkata", 1_803_839_400),
]


def monthly(version: int = 1, **changes: Any) -> LimitPolicy:
    calendar = {"unit": "month", "time_zone": "Europe/Berlin"}
    return policy("pl_a", version, **{"calendar": calendar, "capacity": 100} | changes)


class Gateway(Counter):
    """What a gateway with this policy says of its bucket at a moment, by a clock that may be wrong."""

    def __init__(self, server: redis.Redis, found: LimitPolicy, now_s: int, windows: CalendarWindows | None = None):
        calendar = found.calendar
        if calendar is not None and windows is None:
            longest_s = LONGEST_S[calendar.unit]
            windows = windows_from(calendar, now_s - 40 * DAY_S, now_s + 200 * max(longest_s, 2 * DAY_S))
        (level,) = PolicySet([found], 1, [] if windows is None else [windows]).all_levels()
        super().__init__(server, level.terms, found.version)
        self.level: Level = level
        self.clock_s: float = now_s

    def packed(self, want: int = 0, lease_cap: int | None = None, flags: int = 0) -> bytes:
        terms = list(struct.unpack("<11d", self.level.terms_at(self.clock_s)))
        cap = self.terms.capacity if lease_cap is None else lease_cap
        return struct.pack("<11d", *terms[:7], want, cap, self.life, flags)

    def at(self, function: str, now_us: int, cost: int, ahead_s: float = 0, **asked: Any) -> list[int]:
        """A call by the store's clock, from a gateway whose own is so much ahead of it."""
        self.clock_s = now_us / SECOND + ahead_s
        return self.call(function, now_us // self.terms.tick_us, cost, **asked)


def steps(terms: Terms, begin_us: int, random_: random.Random) -> Iterator[tuple[int, int]]:
    """Moments and costs that crowd the edges of windows."""
    now = begin_us
    for _ in range(150):
        begin, end = window_of(terms, now)
        now += max(
            0, random_.choice([0, 1, end - now, end - now - 1, (end - begin) // 3, random_.randrange(end - begin)])
        )
        yield now, random_.choice([0, 1, terms.capacity // 3, terms.capacity, terms.capacity + 1])


@pytest.mark.parametrize("seed", seeds(examples(1, 2)))
@pytest.mark.parametrize(("unit", "zone", "around"), CALENDARS, ids=str)
def test_store_and_owner_answer_as_exact_arithmetic_does(
    server: redis.Redis, unit: str, zone: str, around: int, seed: int
) -> None:
    """Whatever the gateway's clock is wrong by, within a minute ahead and a quarter of an hour behind."""
    random_ = random.Random(seed)
    start = around - 3 * DAY_S
    store = Gateway(server, policy(calendar={"unit": unit, "time_zone": zone}, capacity=10**12), start)
    owner, oracle = ExactCounter(store.terms), Oracle(store.terms)
    for now, cost in steps(store.terms, start * SECOND, random_):
        allowed, (_, end) = oracle.allows(now, cost), window_of(store.terms, now)
        assert (owner.available(now), owner.reset_us(now)) == (oracle.available(now), end - now)
        ahead_s = random_.choice([0, -900, -1, 59, limits.LIMIT_CALENDAR_SKEW_S])
        code, _, reset_us, retry_us, *_ = store.at("rl1_decide", now, cost, ahead_s)
        assert ((code == OK), reset_us) == (allowed, end - now)
        if allowed:
            owner.charge(now, cost)
            oracle.charge(now, cost)
            assert len(owner.counts) == 1  # what lies in other windows is of no use
        else:
            wait = -1 if cost > store.terms.capacity else end - now
            assert (retry_us, owner.retry_us(now, cost)) == (wait, wait)
        left = oracle.available(now)
        assert (store.at("rl1_peek", now, 0)[3], owner.available(now)) == (left, left)
        owner = msgspec.json.decode(msgspec.json.encode(owner), type=ExactCounter)  # as it is stored


@pytest.mark.parametrize("seed", seeds(examples(1, 2)))
def test_leases_never_let_more_through_than_a_window_holds(server: redis.Redis, seed: int) -> None:
    """True spends at their true times: leases end with their window, and what was spent of them is charged in it."""
    random_ = random.Random(seed)
    store = Gateway(server, policy(calendar={"unit": "hour", "time_zone": "Asia/Kolkata"}), SPRING)
    oracle, now = Oracle(store.terms), SPRING * SECOND
    held: dict[str, list[int]] = {}  # granted, left, ends
    for n in range(300):
        _, end = window_of(store.terms, now)
        now += random_.choice([1, LIFE // 3, LIFE, 12 * LIFE, end - now - LIFE // 2, end - now])
        if random_.random() < 0.5:
            answer = store.at("rl1_decide", now, 1, want=random_.randint(0, 1_000), lease=f"l{n}")
            if answer[0] == OK:
                oracle.charge(now, 1)
                if answer[5]:
                    ends = now + answer[6]
                    assert ends <= window_of(store.terms, now)[1]
                    held[f"l{n}"] = [answer[5], answer[5], ends]
        elif held:
            lease = random_.choice(list(held))
            granted, left, ends = held[lease]
            if now < ends and random_.random() < 0.7:
                spent = random_.randint(0, left)
                held[lease][1] -= spent
                oracle.charge(now, spent)
            else:
                store.at("rl1_settle", now, granted - left, lease=lease)
                del held[lease]
        assert oracle.available(now) >= 0


def test_a_lease_ends_with_its_window_and_is_charged_in_no_other_one(server: redis.Redis) -> None:
    """Neither when it is settled late, nor when nobody settles it: the next window owes nothing for it."""
    store = Gateway(server, monthly(capacity=10_000), SPRING)
    _, end = window_of(store.terms, SPRING * SECOND)
    settled = store.at("rl1_decide", end - 1, 0, want=100, lease="settled")
    assert settled[5:] == [100, 1]
    assert store.at("rl1_decide", end - 1, 0, want=100, lease="lost")[5] == 100
    head = struct.pack("<6d", 0, end - 1, 0, 0, 0, 1)
    lent = call(server, "rl1_decide", ["rl:epoch", "", *store.keys], head, "lent", "", store.packed(100, flags=4))
    assert lent[5:] == [100, 1]  # to an Envoy, no longer either
    assert store.at("rl1_peek", end - 1, 0)[1:3] == [0, 300]
    assert store.at("rl1_peek", end, 0)[1:3] == [0, 0]
    assert store.at("rl1_settle", end, 60, lease="settled") == [OK, 40, 100]
    assert store.at("rl1_peek", end, 0)[1:3] == [0, 0]
    assert store.at("rl1_decide", end, 0, want=7, lease="next")[5] == 7
    store.at("rl1_decide", end + 11 * LIFE, 0)
    assert store.at("rl1_peek", end + 11 * LIFE, 0)[1:3] == [7, 0]


def test_a_clock_that_is_far_wrong_has_no_quota_of_its_own(server: redis.Redis) -> None:
    """A gateway that lives in another month hears what the store's month has left, or is refused: nothing is charged."""
    right, now = Gateway(server, monthly(), SPRING), SPRING * SECOND
    assert right.at("rl1_decide", now, 0, ahead_s=40 * DAY_S) == [WRONG, 1]
    assert server.exists(*right.keys) == 0
    assert right.at("rl1_decide", now, 60)[0] == OK
    assert right.at("rl1_decide", now, 50, ahead_s=40 * DAY_S)[0] == DENIED
    assert right.at("rl1_decide", now, 40, ahead_s=-30 * DAY_S)[0] == OK
    assert right.at("rl1_peek", now, 0)[1:4] == [100, 0, 0]


def test_a_level_in_no_known_window_leaves_every_level_as_it_was(server: redis.Redis) -> None:
    """Also the leases that would have been charged on the way."""
    plain = Gateway(server, policy("pl_b"), SPRING)
    calendar = Gateway(server, monthly(), SPRING)
    now = SPRING * SECOND
    assert plain.at("rl1_decide", now, 1, want=100)[5] > 0
    later = now + 20 * LIFE * plain.terms.tick_us
    before = [server.dump(key) for key in plain.keys]
    calendar.clock_s = SPRING + 60 * DAY_S
    head = struct.pack("<6d", 0, later, 1, 0, 0, 2)
    keys = ["rl:epoch", "", *plain.keys, *calendar.keys]
    assert call(server, "rl1_decide", keys, head, "l", "", plain.packed(), calendar.packed()) == [WRONG, 2]
    assert [server.dump(key) for key in plain.keys] == before


def test_past_the_last_boundary_the_store_answers_as_long_as_it_knows_its_window(server: redis.Redis) -> None:
    windows = windows_from(Calendar("month", "Europe/Berlin"), SPRING, SPRING)
    store = Gateway(server, monthly(), SPRING, windows)
    (_, end), (_, last) = window_at(windows.calendar, SPRING), window_at(windows.calendar, SPRING + 31 * DAY_S)
    assert windows.boundaries[1:] == (end, last)
    assert store.at("rl1_decide", last * SECOND - 1, 30)[0] == OK
    lease = store.at("rl1_decide", last * SECOND - 1, 0, want=10)
    assert lease[5:] == [10, 1]
    assert store.at("rl1_decide", last * SECOND, 1) == [WRONG, 1]
    assert store.at("rl1_peek", last * SECOND, 0) == [WRONG, 1]
    assert store.at("rl1_restore", last * SECOND, 9) == [WRONG, 1]
    assert store.at("rl1_settle", last * SECOND, 10) == [OK, 0, 10]  # the lease is over with its window
    assert store.at("rl1_settle", last * SECOND, 10) == [OK, 0, 0]


@pytest.mark.parametrize(
    "other",
    [
        {"calendar": None, "window_ms": 60_000},
        {"calendar": None, "window_ms": 30 * DAY_S * 1_000, "capacity": 10**6},
        {"calendar": None, "window_ms": 366 * DAY_S * 1_000, "capacity": 10**8},
        {"calendar": None, "window_ms": None, "algorithm": "token_bucket", "refill_rate": 1, "refill_period_ms": DAY_S},
        {"calendar": {"unit": "day", "time_zone": "Asia/Tokyo"}},
    ],
    ids=["minute", "ticks of a millisecond", "ticks of a second", "token bucket", "another calendar"],
)
@pytest.mark.parametrize("to_calendar", [True, False])
def test_usage_is_kept_when_a_policy_comes_to_a_calendar_or_leaves_it(
    server: redis.Redis, other: dict[str, Any], to_calendar: bool
) -> None:
    """Also when the two are counted in other ticks: a clock that is read wrong would forget all, or never go on."""
    before, after = (monthly(1, **other), monthly(2)) if to_calendar else (monthly(1), monthly(2, **other))
    old, new = Gateway(server, before, SPRING), Gateway(server, after, SPRING)
    new.keys = old.keys
    now = SPRING * SECOND
    assert old.at("rl1_decide", now, 40)[0] == OK
    assert new.at("rl1_peek", now, 0)[1] == 40
    assert new.at("rl1_decide", now, 10)[0] == OK
    assert new.at("rl1_peek", now, 0)[1] == 50
    assert old.at("rl1_decide", now, 1)[4] == 2  # a gateway that still holds the old version
    assert new.at("rl1_peek", now, 0)[1] == 51
    year_s = SPRING + 370 * DAY_S
    assert new.at("rl1_peek", year_s * SECOND, 0)[1] == 0
    bound_ms = 2 * 366 * DAY_S * 1_000 + 1_000
    assert [ms for ms in map(server.pttl, new.keys) if ms != NO_KEY and not 0 < ms <= bound_ms] == []


def test_a_gateway_with_an_older_calendar_goes_by_the_newer_one(server: redis.Redis) -> None:
    """Into the next window, which the record knows; further on it must have the newer policy first."""
    old, new = Gateway(server, monthly(), SPRING), Gateway(server, monthly(2, capacity=70), SPRING)
    old.level, kept = Gateway(server, monthly(calendar={"unit": "hour", "time_zone": "UTC"}), SPRING).level, old.keys
    new.keys = kept
    _, end = window_of(new.terms, SPRING * SECOND)
    _, after = window_of(new.terms, end)
    assert new.at("rl1_decide", SPRING * SECOND, 70)[0] == OK
    assert old.at("rl1_decide", end - 1, 1)[0] == DENIED
    assert old.at("rl1_decide", end, 70)[:5] == [OK, 0, after - end, 0, 2]
    assert old.at("rl1_decide", end, 1)[0] == DENIED
    assert old.at("rl1_decide", after, 1) == [WRONG, 1]
    _, later = window_of(new.terms, after)
    for moment in (after, after + 120 * SECOND):  # the second says which window comes next
        assert new.at("rl1_decide", moment, 1)[0] == OK
    assert old.at("rl1_decide", later, 70)[:2] == [OK, 0]


def test_when_the_rules_of_a_zone_change_a_window_has_no_second_quota(server: redis.Redis) -> None:
    """Its end is that of the windows it began by, and then that of the newer rules; reset does not wobble within."""
    calendar, begin = Calendar("day", "Europe/Berlin"), SPRING
    old = CalendarWindows(calendar, (begin, begin + DAY_S, begin + 2 * DAY_S))
    new = CalendarWindows(calendar, (begin, begin + DAY_S + 3_600, begin + 2 * DAY_S))
    found = monthly(calendar={"unit": "day", "time_zone": "Europe/Berlin"})
    before, after = Gateway(server, found, begin, old), Gateway(server, found, begin, new)
    after.keys = before.keys
    assert before.at("rl1_decide", begin * SECOND, 100)[2] == DAY_S * SECOND
    assert after.at("rl1_decide", begin * SECOND, 1)[2] == DAY_S * SECOND
    assert after.at("rl1_decide", (begin + DAY_S) * SECOND, 1)[0] == DENIED
    assert after.at("rl1_decide", (begin + DAY_S + 3_600) * SECOND, 100)[0] == OK


@pytest.mark.parametrize("version", [1, 2])
def test_terms_of_other_ticks_leave_a_bucket_its_clock(server: redis.Redis, version: int) -> None:
    """A capacity that needs coarser ticks: what was used is kept, the window ends when it did, and the next one begins."""
    fine, coarse = (
        Terms(FIXED, c, c, 60 * SECOND // tick, 1, tick, strict=False) for c, tick in ((10, 1), (20, 1_000))
    )
    for first, second in ((fine, coarse), (coarse, fine)):
        old, new = Counter(server, first), Counter(server, second, version=2)
        new.keys = old.keys
        now = SPRING * SECOND
        assert old.call("rl1_decide", now // first.tick_us, 8)[0] == OK
        assert new.call("rl1_decide", now // second.tick_us, 2)[:5] == [OK, second.capacity - 10, 60 * SECOND, 0, 2]
        asking = (old, new)[version - 1]
        left = asking.call("rl1_decide", (now + 30 * SECOND) // asking.terms.tick_us, 0)
        assert left[1:3] == [second.capacity - 10, 30 * SECOND]
        assert asking.call("rl1_decide", (now + 60 * SECOND) // asking.terms.tick_us, 0)[1] == second.capacity


@pytest.mark.parametrize(("tick", "other"), [(1, 1_000), (1_000, 1), (1, SECOND), (SECOND, 1_000)])
def test_leases_that_were_granted_in_other_ticks_are_charged_in_their_time(
    server: redis.Redis, tick: int, other: int
) -> None:
    first, second = (Terms(TOKEN_BUCKET, 1_000, 1, 86_400 * SECOND // t, 1, t, strict=False) for t in (tick, other))
    old, new = Counter(server, first), Counter(server, second, version=2)
    new.keys, old.life, new.life = old.keys, LEASE_TICKS, LEASE_TICKS
    now, life_us = SPRING * SECOND, LEASE_TICKS * tick
    assert old.call("rl1_decide", now // tick, 0, want=50)[5:] == [50, life_us]

    def held(at_us: int) -> list[int]:
        new.call("rl1_decide", at_us // other, 0)
        return new.call("rl1_peek", at_us // other, 0)[1:3]

    assert held(now) == [0, 50]
    assert held(now + 10 * life_us) == [0, 50]
    assert held(now + 11 * life_us + other) == [50, 0]
    again = old.call("rl1_decide", (now + 12 * life_us) // tick, 0, want=50, lease="l2")
    assert again[4:] == [2, 50, max(life_us, other)]  # as long as who asks wanted it, in whole ticks


def test_a_refund_credits_the_window_that_was_charged(server: redis.Redis) -> None:
    store = Gateway(server, monthly(), SPRING)
    _, end = window_of(store.terms, SPRING * SECOND)
    owner = ExactCounter(store.terms)
    for rid, now in (("r1", end - 1), ("r2", end)):
        assert store.at("rl1_decide", now, 30, rid=rid)[0] == OK
        owner.charge(now, 30)
    assert store.at("rl1_refund", end, 0, rid="r1") == [OK, 30]
    owner.give_back(end, end - 1, 30)
    assert (store.at("rl1_peek", end, 0)[1], owner.used(end)) == (30, 30)
    assert store.at("rl1_refund", end, 0, rid="r2") == [OK, 30]
    owner.give_back(end, end, 30)
    assert (store.at("rl1_peek", end, 0)[1], owner.used(end)) == (0, 0)


def test_an_owner_keeps_usage_when_a_policy_comes_to_a_calendar() -> None:
    counter = ExactCounter(Terms(TOKEN_BUCKET, 100, 1, DAY_S, 1, SECOND, strict=False))
    counter.charge(SPRING * SECOND, 40)
    terms = PolicySet([monthly()], 1).all_levels()[0].terms
    counter.carry_over(terms, SPRING * SECOND, SPRING * SECOND)
    assert counter.used(SPRING * SECOND) == 40
    assert counter.used(window_of(terms, SPRING * SECOND)[1]) == 0
