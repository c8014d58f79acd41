"""The store's functions against exact fractions: every allow, every remainder, every wait, on the real server."""

from __future__ import annotations

import random
import struct
import uuid
from typing import TYPE_CHECKING, Any

import pytest
import redis

from schemas.limiter.limit_terms import Terms
from tests.gate import examples
from tests.seeds import seeds
from tests.worlds.limiter.limit_oracle import FIXED, SLIDING, TOKEN_BUCKET, Oracle
from tests.worlds.limiter.limiter_kinds import with_functions, with_script

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import World

pytestmark = pytest.mark.servers
DENIED, OK, DUPLICATE, CONFLICT, STALE_EPOCH, WRONG = 0, 1, 2, 3, 4, 5
BASE = 1_800_000_000_000_000  # microseconds: the size of real clocks
LEASE_TICKS = 1_000
LEASE_US_MIN = 1_000_000  # by its own clock the server keeps a lease for longer than this machine ever pauses
HISTORY = examples(150, 300)
PERMITS = 3  # the algorithm
NO_KEY = -2  # what PTTL says of a key that is not there
TERMS = [
    Terms(algorithm, capacity, refill, period, slots, tick_us, strict)
    for algorithm, slots, strict in (
        (TOKEN_BUCKET, 1, False),
        (SLIDING, 1, False),
        (SLIDING, 10, False),
        (SLIDING, 6, True),
        (FIXED, 1, False),
    )
    for capacity, refill, period, tick_us in (
        (1, 1, 60_000, 1_000),
        (100, 7, 59_821_200, 1),
        (10**6, 10**6, 86_400_000, 1_000),
        (10**9, 10**9, 2_592_000, 1_000_000),
    )
]


class Counter:
    """One bucket on the server, with a clock of the test's own."""

    def __init__(self, server: redis.Redis, terms: Terms, version: int = 1) -> None:
        self.server = server
        self.terms = terms
        self.version = version
        self.life = max(LEASE_TICKS, LEASE_US_MIN // terms.tick_us)  # of leases
        name = uuid.uuid4().hex
        self.keys = [f"rl:{{{name}}}:b", f"rl:{{{name}}}:l"]
        self.identity = f"rl:q:{name}:"

    def packed(self, want: int = 0, lease_cap: int | None = None, flags: int = 0) -> bytes:
        t = self.terms
        cap = t.capacity if lease_cap is None else lease_cap
        life = (self.life, flags + t.strict)
        return struct.pack(
            "<11d", t.algorithm, t.capacity, t.refill, t.period, t.slots, t.tick_us, self.version, want, cap, *life
        )

    def call(
        self, function: str, tick: int, cost: int, *, want: int = 0, lease: str = "l1", rid: str = "", epoch: int = 0
    ) -> list[int]:
        head = struct.pack("<6d", epoch, tick * self.terms.tick_us, cost, 60_000, 0, 1)
        keys = ["rl:epoch", self.identity + rid, *self.keys]
        return call(self.server, function, keys, head, lease, rid, self.packed(want))


def call(server: redis.Redis, function: str, keys: list[str], *arguments: Any) -> list[int]:
    found: Any = server.fcall(function, len(keys), *keys, *arguments)
    return list(found)


@pytest.fixture(scope="module", params=["functions", pytest.param("script", marks=pytest.mark.proof)])
def server(stack: World, request: pytest.FixtureRequest) -> Iterator[redis.Redis]:
    """Both kinds in the proof; that they answer alike is compared below in the gate too."""
    kind = with_script if request.param == "script" else with_functions
    with kind(stack.addresses.redis_url) as found:
        yield found


def steps(terms: Terms, random_: random.Random) -> Iterator[tuple[int, int]]:
    """Ticks and costs that crowd the edges: of the capacity, and of windows and slots."""
    now = BASE // terms.tick_us
    slot = terms.period // terms.slots
    for _ in range(HISTORY):
        jump = random_.choice(
            [0, 0, 1, slot // 7, slot - now % slot, slot - now % slot - 1, terms.period, 3 * terms.period]
        )
        now += max(0, random_.choice([jump, random_.randint(0, slot)]))
        whole = [0, 1, terms.capacity, terms.capacity + 1, terms.capacity // 2, random_.randint(1, terms.capacity)]
        yield now, random_.choice(whole)


@pytest.mark.parametrize("seed", seeds(examples(1, 2)))
@pytest.mark.parametrize("terms", TERMS, ids=str)
def test_every_answer_is_that_of_exact_arithmetic(server: redis.Redis, terms: Terms, seed: int) -> None:
    counter, oracle = Counter(server, terms), Oracle(terms)
    for now, cost in steps(terms, random.Random(seed)):
        allowed = oracle.allows(now, cost)
        code, available, _, retry_us, version, granted, _ = counter.call("rl1_decide", now, cost)
        assert (code == OK) == allowed, (now, cost)
        if allowed:
            oracle.charge(now, cost)
        else:
            assert_least_wait(oracle, now, cost, retry_us)
        assert (available, version, granted) == (max(0, oracle.available(now)), 1, 0)


def assert_least_wait(oracle: Oracle, now: int, cost: int, retry_us: int) -> None:
    """After the wait it passes; one tick before, it does not."""
    if cost > oracle.terms.capacity:
        assert retry_us == -1
        return
    wait, rest = divmod(retry_us, oracle.terms.tick_us)
    assert rest == 0
    assert wait > 0
    assert oracle.allows(now + wait, cost)
    assert not oracle.allows(now + wait - 1, cost)


@pytest.mark.parametrize("seed", seeds(examples(1, 3)))
@pytest.mark.parametrize("terms", [t for t in TERMS if t.capacity in (100, 10**6)], ids=str)
def test_leases_never_let_more_through_than_the_limit(server: redis.Redis, terms: Terms, seed: int) -> None:
    """True spends, at their true times, fit the policy: whatever leases are granted, crash, or are settled late."""
    random_ = random.Random(seed)
    counter, oracle = Counter(server, terms), Oracle(terms)
    held: dict[str, list[int]] = {}  # lease: granted, left, ends
    now = BASE // terms.tick_us
    for n in range(HISTORY):
        now += random_.choice([0, 1, counter.life // 3, counter.life, terms.period // 50, 12 * counter.life])
        act = random_.random()
        if act < 0.5:
            lease, cost = f"lease{n}", random_.choice([1, terms.capacity // 10])
            asked = counter.call("rl1_decide", now, cost, want=random_.randint(0, terms.capacity), lease=lease)
            if asked[0] == OK:
                oracle.charge(now, cost)
                if asked[5]:
                    held[lease] = [asked[5], asked[5], now + asked[6] // terms.tick_us]
        elif held:
            lease = random_.choice(list(held))
            granted, left, ends = held[lease]
            if act < 0.8 and now < ends:
                spent = random_.randint(0, left)
                held[lease][1] -= spent
                oracle.charge(now, spent)
            elif act < 0.95:
                counter.call("rl1_settle", now, granted - left, lease=lease)
                del held[lease]
            else:
                del held[lease]  # the gateway died
        assert_within(oracle, now)


def assert_within(oracle: Oracle, now: int) -> None:
    t = oracle.terms
    assert oracle.exact(now) >= 0
    if t.algorithm == TOKEN_BUCKET:
        begin = max(BASE // t.tick_us, now - t.period)
        assert oracle.admitted(begin, now + 1) <= t.capacity + (now - begin) * t.refill / t.period


@pytest.mark.parametrize("terms", [t for t in TERMS if t.capacity == 100], ids=str)
def test_a_lease_is_settled_once(server: redis.Redis, terms: Terms) -> None:
    counter, now = Counter(server, terms), BASE // terms.tick_us
    _, available, _, _, _, granted, _ = counter.call("rl1_decide", now, 10, want=1_000)
    assert granted == available  # half of what was left, the other half is still there
    assert counter.call("rl1_settle", now, 5) == [OK, granted - 5, granted]
    assert counter.call("rl1_settle", now, 5) == [OK, 0, 0]
    assert counter.call("rl1_peek", now, 0)[1:4] == [15, 0, 85]


@pytest.mark.parametrize("terms", [t for t in TERMS if t.capacity == 100], ids=str)
def test_an_identity_consumes_once(server: redis.Redis, terms: Terms) -> None:
    counter, now = Counter(server, terms), BASE // terms.tick_us
    first = counter.call("rl1_decide", now, 30, rid="r1")
    assert counter.call("rl1_decide", now, 30, rid="r1") == [DUPLICATE, *first[1:]]
    assert counter.call("rl1_decide", now, 31, rid="r1") == [CONFLICT]
    assert counter.call("rl1_decide", now, 80, rid="r2")[0] == DENIED
    assert counter.call("rl1_decide", now, 70, rid="r2")[0] == OK  # a refusal consumed nothing and is not kept
    assert counter.call("rl1_refund", now, 0, rid="r1") == [OK, 30]
    assert counter.call("rl1_refund", now, 0, rid="r1") == [DUPLICATE, 30]
    assert counter.call("rl1_peek", now, 0)[1:4] == [70, 0, 30]


def test_a_late_refund_credits_only_what_has_not_leaked(server: redis.Redis) -> None:
    terms = Terms(TOKEN_BUCKET, 100, 10, 1_000, 1, 1_000, strict=False)
    counter, now = Counter(server, terms), BASE // terms.tick_us
    counter.call("rl1_decide", now, 50, rid="r1")
    counter.call("rl1_decide", now + 3_000, 100 - 20, rid="r2")  # 30 of the 50 have leaked: the bucket is full again
    counter.call("rl1_refund", now + 3_000, 0, rid="r1")
    assert counter.call("rl1_peek", now + 3_000, 0)[1:4] == [80, 0, 20]


def test_many_levels_are_charged_all_or_none(server: redis.Redis) -> None:
    wide, narrow = (Counter(server, Terms(FIXED, c, c, 60_000, 1, 1_000, strict=False)) for c in (50, 5))
    now = BASE // 1_000
    keys = ["rl:epoch", "", *wide.keys, *narrow.keys]

    def decide(cost: int, *, shadow: bool = False) -> list[int]:
        head = struct.pack("<6d", 0, now * 1_000, cost, 0, 0, 2)
        return call(server, "rl1_decide", keys, head, "l", "", wide.packed(), narrow.packed(flags=2 * shadow))

    assert decide(4)[0] == OK
    refused = decide(2)
    assert (refused[0], refused[1], refused[7]) == (DENIED, 46, 1)
    assert (refused[3], refused[9]) == (
        0,
        60_000_000 - now * 1_000 % 60_000_000,
    )  # only the narrow one has to be waited for
    assert wide.call("rl1_peek", now, 0)[1] == 4
    assert decide(2, shadow=True)[0] == OK  # a shadow policy refuses nobody, and is not charged beyond its limit
    assert [c.call("rl1_peek", now, 0)[1] for c in (wide, narrow)] == [6, 4]


def test_the_newest_version_decides_for_everybody_and_usage_is_kept(server: redis.Redis) -> None:
    old = Counter(server, Terms(FIXED, 100, 100, 60_000, 1, 1_000, strict=False))
    new = Counter(server, Terms(FIXED, 70, 70, 60_000, 1, 1_000, strict=False), version=2)
    new.keys = old.keys
    now = BASE // 1_000
    assert old.call("rl1_decide", now, 60)[0] == OK
    assert new.call("rl1_decide", now, 10)[:2] == [OK, 0]
    assert old.call("rl1_decide", now, 1)[0] == DENIED  # a gateway that still holds the old version
    assert old.call("rl1_decide", now, 1)[4] == 2


@pytest.mark.parametrize("idle_ms", [0, 90_000, 444_000])
def test_a_bucket_that_is_lowered_leaks_once_and_is_kept_until_it_has(server: redis.Redis, idle_ms: int) -> None:
    """Usage under the old version leaks for the time that has passed, not twice, and outlives the smaller bucket."""
    token_ms = 60_000
    old = Counter(server, Terms(TOKEN_BUCKET, 10, 1, token_ms, 1, 1_000, strict=False))
    new = Counter(server, Terms(TOKEN_BUCKET, 2, 1, token_ms, 1, 1_000, strict=False), version=2)
    new.keys = old.keys
    now = BASE // 1_000
    assert old.call("rl1_decide", now, 10)[0] == OK
    refused = new.call("rl1_decide", now + idle_ms, 1)
    used_ms = 10 * token_ms - idle_ms
    assert refused[0] == DENIED
    assert refused[3] == (used_ms - token_ms) * 1_000  # until one token is there
    assert server.pttl(new.keys[0]) > used_ms - token_ms // 2  # half a token's time for a slow machine
    assert new.call("rl1_decide", now + idle_ms + used_ms - token_ms - 1, 1)[0] == DENIED
    assert new.call("rl1_decide", now + idle_ms + used_ms - token_ms, 1)[0] == OK


def test_a_stale_epoch_changes_nothing(server: redis.Redis) -> None:
    counter = Counter(server, TERMS[0])
    assert counter.call("rl1_decide", BASE, 1, epoch=7) == [STALE_EPOCH, 0]
    assert server.exists(*counter.keys) == 0


def test_a_peek_of_another_epoch_is_refused(server: redis.Redis) -> None:
    assert Counter(server, TERMS[0]).call("rl1_peek", BASE, 0, epoch=7) == [STALE_EPOCH, 0]


@pytest.mark.parametrize("function", ["rl1_restore", "rl1_register", "rl1_settle"])
def test_permits_are_neither_leased_nor_restored(server: redis.Redis, function: str) -> None:
    counter = Counter(server, Terms(3, 2, 2, 5_000, 1, 1_000, strict=False))
    assert counter.call(function, BASE // 1_000, 1) == [WRONG, 1]
    assert server.exists(*counter.keys) == 0


@pytest.mark.parametrize("terms", [t for t in TERMS if t.capacity == 100], ids=str)
def test_a_refund_credits_only_what_was_charged(server: redis.Redis, terms: Terms) -> None:
    """A shadow bucket over its limit lets everything through uncharged: nothing of that is given back."""
    counter, now = Counter(server, terms), BASE // terms.tick_us
    keys = ["rl:epoch", f"{counter.identity}r1", *counter.keys]

    def asked(function: str, cost: int) -> list[int]:
        head = struct.pack("<6d", 0, now * terms.tick_us, cost, 60_000, 0, 1)
        return call(server, function, keys, head, "l", "r1", counter.packed(flags=2))

    assert counter.call("rl1_decide", now, 80)[0] == OK
    first = asked("rl1_decide", 30)
    assert (first[0], first[1]) == (OK, 20)
    again = asked("rl1_decide", 30)
    assert asked("rl1_refund", 0) == [OK, 30]
    assert counter.call("rl1_peek", now, 0)[1:4] == [80, 0, 20]
    assert again == [DUPLICATE, *first[1:]]


def test_a_refund_over_other_buckets_changes_nothing(server: redis.Redis) -> None:
    """A level was added meanwhile: what it never charged is not credited."""
    first, added = (Counter(server, Terms(FIXED, 50, 50, 60_000, 1, 1_000, strict=False)) for _ in range(2))
    now = BASE // 1_000
    assert first.call("rl1_decide", now, 10, rid="r1")[0] == OK
    assert added.call("rl1_decide", now, 10)[0] == OK
    head = struct.pack("<6d", 0, now * 1_000, 0, 60_000, 0, 2)
    keys = ["rl:epoch", f"{first.identity}r1", *first.keys, *added.keys]
    assert call(server, "rl1_refund", keys, head, "l", "r1", first.packed(), added.packed()) == [WRONG, 0]
    assert [c.call("rl1_peek", now, 0)[1] for c in (first, added)] == [10, 10]


def test_a_refund_over_another_bucket_in_the_place_of_one_changes_nothing(server: redis.Redis) -> None:
    """A level was replaced meanwhile, and there are as many as before. What was told before is told again as it was."""
    charged, other = (Counter(server, Terms(FIXED, 50, 50, 60_000, 1, 1_000, strict=False)) for _ in range(2))
    now = BASE // 1_000
    first = charged.call("rl1_decide", now, 10, rid="r1")
    assert other.call("rl1_decide", now, 10)[0] == OK
    head = struct.pack("<6d", 0, now * 1_000, 0, 60_000, 0, 1)
    keys = ["rl:epoch", f"{charged.identity}r1", *other.keys]
    assert call(server, "rl1_refund", keys, head, "l", "r1", other.packed()) == [WRONG, 0]
    assert charged.call("rl1_decide", now, 10, rid="r1") == [DUPLICATE, *first[1:]]
    assert [c.call("rl1_peek", now, 0)[1] for c in (charged, other)] == [10, 10]
    assert [charged.call("rl1_refund", now, 0, rid="r1") for _ in range(2)] == [[OK, 10], [DUPLICATE, 10]]
    assert charged.call("rl1_peek", now, 0)[1] == 0


def test_an_identity_of_the_functions_before_is_given_back(server: redis.Redis) -> None:
    counter, now = Counter(server, Terms(FIXED, 50, 50, 60_000, 1, 1_000, strict=False)), BASE // 1_000
    assert counter.call("rl1_decide", now, 10, rid="r1")[0] == OK
    record = server.get(f"{counter.identity}r1")
    assert isinstance(record, bytes)
    server.set(f"{counter.identity}r1", record.partition(b";")[0], keepttl=True)
    assert counter.call("rl1_refund", now, 0, rid="r1") == [OK, 10]


@pytest.mark.parametrize("terms", TERMS[::4], ids=str)
def test_no_key_lives_for_ever(server: redis.Redis, terms: Terms) -> None:
    counter = Counter(server, terms)
    counter.call("rl1_decide", BASE // terms.tick_us, 1, want=10, rid="r1")
    for key in server.scan_iter(f"*{counter.keys[0][4:36]}*"):
        assert server.pttl(key) > 0


@pytest.mark.parametrize("seed", seeds(examples(1, 2)))
@pytest.mark.parametrize("terms", [*TERMS[::3], Terms(3, 100, 100, 60_000, 1, 1_000, strict=False)], ids=str)
def test_after_random_operations_every_key_ends(server: redis.Redis, terms: Terms, seed: int) -> None:
    """No key is immortal, and none outlives two periods or what it owes, an unsettled lease, and a second."""
    counter, random_ = Counter(server, terms), random.Random(seed)
    writers = ["rl1_decide", "rl1_decide", "rl1_settle", "rl1_register", "rl1_restore", "rl1_refund"]
    owed = terms.capacity
    cost_max = terms.capacity + 1
    for n, (now, any_cost) in enumerate(steps(terms, random_)):
        cost = min(any_cost, cost_max)
        lease, rid = f"l{random_.randint(0, 20)}", random_.choice(["", f"r{random_.randint(0, 20)}"])
        counter.call(random_.choice(writers), now, cost, want=random_.choice([0, cost]), lease=lease, rid=rid)
        owed = max(owed, counter.call("rl1_peek", now, 0)[1])  # what is restored may exceed it beside leases
        if n % 10 == 0 or n == HISTORY - 1:
            keys = [*counter.keys, *(f"{counter.identity}r{n}" for n in range(21))]
            left = [server.pttl(key) for key in keys]
            longest_ticks = max(2 * terms.period, -(-owed * terms.period // terms.refill)) + 13 * counter.life
            bound_ms = max(longest_ticks * terms.tick_us // 1_000, 60_000) + 1_000
            assert [ms for ms in left if ms != NO_KEY and not 0 < ms <= bound_ms] == []


def test_a_clock_that_steps_back_gives_nothing_away(server: redis.Redis) -> None:
    terms = Terms(TOKEN_BUCKET, 10, 1, 1_000, 1, 1_000, strict=False)
    counter, now = Counter(server, terms), BASE // 1_000
    assert counter.call("rl1_decide", now, 10)[0] == OK
    assert counter.call("rl1_decide", now - 5_000, 1)[0] == DENIED
    assert counter.call("rl1_decide", now + 999, 1)[0] == DENIED
    assert counter.call("rl1_decide", now + 1_000, 1)[0] == OK


def test_usage_of_the_stream_is_restored_once(server: redis.Redis) -> None:
    counter = Counter(server, Terms(FIXED, 100, 100, 60_000, 1, 1_000, strict=False))
    now = BASE // 1_000
    counter.call("rl1_decide", now, 10)
    assert counter.call("rl1_restore", now, 40) == [OK, 30]
    assert counter.call("rl1_restore", now, 40) == [OK, 0]
    assert counter.call("rl1_peek", now, 0)[1] == 40


def test_a_new_primary_learns_of_a_lease_once(server: redis.Redis) -> None:
    counter = Counter(server, Terms(FIXED, 100, 100, 60_000, 1, 1_000, strict=False))
    now = BASE // 1_000
    assert counter.call("rl1_register", now, 25, lease="x") == [OK, 25]
    assert counter.call("rl1_register", now, 25, lease="x") == [OK, 0]
    assert counter.call("rl1_peek", now, 0)[1:4] == [0, 25, 75]
    assert counter.call("rl1_settle", now, 5, lease="x") == [OK, 20, 25]
    assert counter.call("rl1_peek", now, 0)[1:4] == [5, 0, 95]


@pytest.mark.parametrize("terms", [t for t in TERMS if t.capacity == 10**6 and t.algorithm == FIXED], ids=str)
def test_a_lease_that_nobody_settles_is_charged_whole(server: redis.Redis, terms: Terms) -> None:
    counter, now = Counter(server, terms), BASE // terms.tick_us
    now -= now % terms.period  # the window outlives the lease
    granted = counter.call("rl1_decide", now, 1, want=100)[5]
    assert granted == 100
    counter.call("rl1_decide", now + 10 * LEASE_TICKS, 0)
    assert counter.call("rl1_peek", now + 10 * LEASE_TICKS, 0)[1:3] == [1, 100]
    counter.call("rl1_decide", now + 11 * LEASE_TICKS, 0)
    assert counter.call("rl1_peek", now + 11 * LEASE_TICKS, 0)[1:3] == [101, 0]
    assert counter.call("rl1_settle", now + 11 * LEASE_TICKS, 7) == [OK, 0, 0]
