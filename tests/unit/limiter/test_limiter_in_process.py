"""The limiter without a server: the same answers as exact arithmetic, bounded, once for an identity, from any thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limiter.decide.in_process import InProcessLimiter, made_policy
from schemas import errors
from schemas.limiter import limits
from schemas.limiter.exact_counter import ExactCounter
from schemas.limiter.limit_terms import terms

TOKENS = {"algorithm": "token_bucket", "capacity": 10, "refill_rate": 7, "refill_period_ms": 3}
WINDOW = {"algorithm": "fixed_window", "capacity": 10, "window_ms": 3}
SLIDING = {"algorithm": "sliding_window", "capacity": 10, "window_ms": 3, "slots": 3}
DAILY = {"algorithm": "fixed_window", "capacity": 10, "calendar": {"unit": "day", "time_zone": "Europe/Berlin"}}
HOUR = {"algorithm": "fixed_window", "capacity": 15, "window_ms": 3_600_000}
NOON_US = 1_800_000_000_000_000


class Clock:
    """A clock of microseconds that a test turns."""

    def __init__(self) -> None:
        self.now_us = NOON_US

    def __call__(self) -> int:
        return self.now_us


@pytest.mark.parametrize("algorithm", [TOKENS, WINDOW, SLIDING, {**SLIDING, "strict": True}, DAILY])
@given(asked=st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, 12)), max_size=60))
def test_it_answers_as_exact_arithmetic_does(algorithm: dict[str, Any], asked: list[tuple[int, int]]) -> None:
    clock = Clock()
    found, computed = InProcessLimiter(algorithm, now_us=clock), terms(made_policy(algorithm, "pl_1"))
    assert computed is not None
    exact = ExactCounter(computed)
    for later_us, cost in asked:
        clock.now_us += later_us
        now, fits = clock.now_us, cost <= exact.available(clock.now_us)
        retry_ms = 0
        if fits and cost:
            exact.charge(now, cost)
        elif not fits:
            retry_us = exact.retry_us(now, cost)
            retry_ms = -1 if retry_us < 0 else -(-retry_us // 1_000)
        told = found.check("t", "u", "/r", cost)
        assert (told.allowed, told.remaining) == (fits, max(0, exact.available(now)))
        assert (told.retry_after_ms, told.reset_ms) == (retry_ms, -(-exact.reset_us(now) // 1_000))


def test_all_limits_of_a_policy_allow_or_none_is_charged() -> None:
    clock = Clock()
    found = InProcessLimiter({**TOKENS, "refill_period_ms": 1_000, "further_limits": [HOUR]}, now_us=clock)
    assert [found.check("t", "u", "/r").allowed for _ in range(12)] == [True] * 10 + [False] * 2
    clock.now_us += 1_500_000
    told = [found.check("t", "u", "/r") for _ in range(7)]
    assert [one.allowed for one in told] == [True] * 5 + [False] * 2
    assert (told[-1].policy_id, told[-1].retry_after_ms) == (
        "pl_1/2",
        3_600_000 - (NOON_US // 1_000 + 1_500) % 3_600_000,
    )


def test_lists_levels_and_shadows_hold_as_at_a_gateway() -> None:
    scope = {"tenant": "bad", "user": "*", "route": "*"}
    found = InProcessLimiter(
        {**WINDOW, "window_ms": 60_000, "per": ["tenant"]},
        {**WINDOW, "window_ms": 60_000, "capacity": 2},
        {**WINDOW, "window_ms": 60_000, "capacity": 1, "shadow": True},
        {"algorithm": "deny", "scope": scope, "per": ["route"]},
        {"algorithm": "deny", "scope": scope | {"tenant": "*", "route": "/r"}, "per": ["tenant"], "shadow": True},
        now_us=Clock(),
    )
    assert not found.check("bad", "u", "/r").allowed
    assert [found.check("t", "u", "/r").allowed for _ in range(3)] == [True, True, False]
    assert found.refused_in_shadow == {"pl_3": 2, "pl_5": 4}  # of what others refused, too
    assert [sum(found.check("t", f"u{n}", "/r").allowed for _ in range(3)) for n in range(6)] == [2, 2, 2, 2, 0, 0]
    by_network = InProcessLimiter({**WINDOW, "window_ms": 60_000, "per": ["network"]}, now_us=Clock())
    assert sum(by_network.check("t", f"u{n}", "/r", network=f"192.0.2.{n}").allowed for n in range(20)) == 10
    assert by_network.check("t", "u", "/r").policy_id == ""


def test_an_identity_consumes_once_and_keeps_its_cost() -> None:
    clock = Clock()
    found = InProcessLimiter({**WINDOW, "window_ms": 3_600_000}, now_us=clock)
    assert not found.check("t", "u", "/r", 3, "i").duplicate
    assert found.check("t", "u", "/r", 3, "i").duplicate
    assert found.check("t", "u", "/r", 0).remaining == 7
    with pytest.raises(errors.KeyReused):
        found.check("t", "u", "/r", 4, "i")
    clock.now_us += limits.LIMIT_IDENTITY_MS * 1_000  # kept for that long at least
    assert found.check("t", "u", "/r", 3, "i").duplicate
    clock.now_us += 2 * limits.LIMIT_IDENTITY_MS * 1_000 + 2
    found.check("t", "u", "/r", 1, "turns")
    clock.now_us += limits.LIMIT_IDENTITY_MS * 1_000 + 1
    assert not found.check("t", "u", "/r", 3, "i").duplicate


def test_an_identity_of_yesterday_is_a_new_request_though_nobody_asked_since() -> None:
    clock = Clock()
    found = InProcessLimiter({**WINDOW, "window_ms": 3_600_000}, now_us=clock)
    assert not found.check("t", "u", "/r", 3, "i").duplicate
    clock.now_us += 24 * 3_600_000_000
    told = found.check("t", "u", "/r", 4, "i")  # no word of the cost that it had then
    assert (told.allowed, told.duplicate, told.remaining) == (True, False, 6)


@pytest.mark.parametrize("cost", [-1, limits.LIMIT_COST_MAX + 1])
def test_what_is_no_cost_consumes_nothing(cost: int) -> None:
    found = InProcessLimiter({**WINDOW, "window_ms": 60_000}, now_us=Clock())
    for _ in range(2):  # a key that nobody knows, and one that is known
        with pytest.raises(errors.InvalidCommand):
            found.check("t", "u", "/r", cost)
        assert found.check("t", "u", "/r", 0).remaining == 10


def test_what_one_process_cannot_keep_is_refused() -> None:
    for wrong in (
        {"algorithm": "concurrency", "capacity": 1, "window_ms": 1_000, "consistency": "exact"},
        {**WINDOW, "consistency": "durable"},
        {**WINDOW, "capacity": 0},
    ):
        with pytest.raises(errors.InvalidCommand):
            InProcessLimiter(wrong)


def test_other_policies_keep_what_is_counted() -> None:
    found = InProcessLimiter({**WINDOW, "window_ms": 60_000}, now_us=Clock())
    assert [found.check("t", "u", "/r").allowed for _ in range(6)] == [True] * 6
    found.use({**WINDOW, "window_ms": 60_000, "capacity": 7})
    assert [found.check("t", "u", "/r").allowed for _ in range(2)] == [True, False]
    found.use({**TOKENS, "refill_period_ms": 3_600_000})
    assert found.check("t", "u", "/r", 0).remaining == 3
    found.use()
    assert found.check("t", "u", "/r").policy_id == ""


def test_what_holds_nothing_makes_room_first() -> None:
    clock = Clock()
    found = InProcessLimiter({**WINDOW, "window_ms": 60_000}, keys_max=100, now_us=clock)
    for _ in range(10):
        found.check("t", "hot", "/r")
    for n in range(99):
        found.check("t", f"u{n}", "/r", 0)
    for n in range(500):
        found.check("t", f"v{n}", "/r", 0)
        assert not found.check("t", "hot", "/r").allowed  # what is used up is not forgotten
    assert found.forgotten == 0
    assert len(found._counters) <= 100
    for n in range(150):
        found.check("t", f"w{n}", "/r")
    assert found.forgotten > 0
    assert len(found._counters) == 100


def test_threads_admit_no_more_together() -> None:
    found = InProcessLimiter({**WINDOW, "capacity": 5_000, "window_ms": 60_000}, now_us=Clock())
    with ThreadPoolExecutor(8) as pool:
        admitted = sum(pool.map(lambda _: sum(found.check("t", "u", "/r").allowed for _ in range(1_000)), range(8)))
    assert admitted == 5_000
