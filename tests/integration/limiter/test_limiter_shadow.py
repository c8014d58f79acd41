"""Limits in shadow mode, and callers who wait for a quota, on a real Valkey."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from limiter.decide.acquire import acquire
from tests.worlds.limiter.counter_server import CounterServer, emptied, limiter, policies, policy, server

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.servers, pytest.mark.usefixtures("emptied")]
__all__ = ["emptied", "server"]  # the fixtures of this module


@pytest.mark.parametrize("consistency", ["leased", "exact"])
def test_an_exhausted_shadow_level_costs_no_store_call_and_is_told_of(
    server: CounterServer, tmp_path: Path, consistency: str
) -> None:
    """Leases of the real level go on deciding; what the shadow would have refused is counted to the last."""
    real = policy("pl_real", capacity=10**9)
    shadow = policy("pl_shadow", capacity=5, shadow=True, consistency=consistency)

    async def test() -> None:
        async with limiter(server.url, tmp_path, real, shadow) as gateway:
            asked = 20_000
            for n in range(asked):
                assert (await gateway.check("t", "u", "/r")).allowed
                if n % 1_000 == 0:
                    await gateway.maintain()
            assert gateway.store_calls < asked / 10  # a refusal is remembered for a quarter of a second
            assert gateway._recorder.outcomes.refused_in_shadow == {"pl_shadow": asked - 5}

    asyncio.run(test())


def test_who_waits_for_a_quota_gets_it_or_hears_at_once_that_it_will_not_come(
    server: CounterServer, tmp_path: Path
) -> None:
    """By the wait that refusals tell: nothing is charged for those that came to nothing."""
    bucket = {
        "algorithm": "token_bucket",
        "capacity": 2,
        "refill_rate": 20,
        "refill_period_ms": 1_000,
        "window_ms": None,
    }
    slow = {**bucket, "refill_rate": 1, "refill_period_ms": 3_600_000}

    async def test() -> None:
        async with limiter(server.url, tmp_path, policy("pl_w", consistency="exact", **bucket)) as gateway:
            got = await asyncio.gather(*(acquire(gateway, "t", "w", "/r", within_s=60) for _ in range(6)))
            assert [decided.allowed for decided in got] == [True] * 6
            assert not (await acquire(gateway, "t", "w", "/r", 3, within_s=60)).allowed  # more than there ever is
            gateway.use(policies(policy("pl_s", consistency="exact", **slow)))
            got = await asyncio.gather(*(acquire(gateway, "t", "s", "/r", within_s=60) for _ in range(3)))
            assert sorted(decided.allowed for decided in got) == [False, True, True]

    asyncio.run(test())
