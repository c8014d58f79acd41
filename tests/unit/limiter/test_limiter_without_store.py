"""What a gateway remembers of requests that it allowed without the counter store: each consumes once, and not for ever."""

from __future__ import annotations

import pytest

from limiter.decide.failure import WithoutStore
from limiter.policy.policies import PolicySet
from limiter.spending.buckets import Bucket
from limiter.spending.key_state import KeyState
from schemas import errors
from schemas.limiter import limits
from tests.worlds.limiter.counter_server import policy

LIFE_S = limits.LIMIT_IDENTITY_MS / 1_000


class Clock:
    """A clock of seconds that a test turns."""

    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def key_of(capacity: int) -> KeyState:
    level = PolicySet([policy("pl_a", capacity=capacity, window_ms=3_600_000, failure_mode="open")], 1).all_levels()[0]
    return KeyState("t:u:/r", (Bucket(level, "t"),), 0)


def test_a_retry_in_an_outage_consumes_nothing_and_keeps_its_cost() -> None:
    clock, key = Clock(), key_of(3)
    found = WithoutStore(clock_s=clock)
    assert not found.decide(key, 3, "i").duplicate
    for _ in range(2):  # a young one, and one of the half before
        clock.now_s += LIFE_S
        assert found.decide(key, 3, "i").duplicate
        with pytest.raises(errors.KeyReused):
            found.decide(key, 2, "i")


def test_what_an_earlier_outage_allowed_is_a_new_request_in_the_next_one() -> None:
    clock, key = Clock(), key_of(3)
    found = WithoutStore(clock_s=clock)
    assert not found.decide(key, 3, "i").duplicate
    clock.now_s += 24 * 3_600
    told = found.decide(key, 2, "i")
    assert (told.allowed, told.degraded, told.duplicate) == (True, True, False)
    assert not found.decide(key, 2, "another").allowed, "it was charged"
