"""Limits in shadow mode, and callers who wait for a quota, on a real Valkey."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from limiter.decide.acquire import acquire
from limiter.stream.blocks import decode
from limiter.stream.usage import totals
from tests.worlds.limiter.counter_server import (
    MONTH_MS,
    CounterServer,
    emptied,
    limiter,
    listed,
    policies,
    policy,
    server,
)

if TYPE_CHECKING:
    from pathlib import Path

    from limiter import Limiter

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
            assert streamed(gateway) == {"t:u:/r": (asked, 0, {"pl_shadow": asked - 5})}

    asyncio.run(test())


def test_a_request_that_both_refuse_says_so(server: CounterServer, tmp_path: Path) -> None:
    """By the store, and then by the refusal that is remembered; a guard of a window and its policy are one."""
    window_ms = MONTH_MS
    real = policy("pl_real", capacity=3, window_ms=window_ms)
    shadow = policy("pl_shadow", capacity=2, window_ms=window_ms, shadow=True, boundary_guard=1)

    async def test() -> None:
        async with limiter(server.url, tmp_path, real, shadow) as gateway:
            allowed = [(await gateway.check("t", "u", "/r")).allowed for _ in range(6)]
            assert allowed == [True] * 3 + [False] * 3
            assert streamed(gateway) == {"t:u:/r": (3, 3, {"pl_shadow": 5})}

    asyncio.run(test())


def test_a_block_list_in_shadow_mode_would_refuse_every_request(server: CounterServer, tmp_path: Path) -> None:
    """Of keys that a lease decides alone otherwise, and of those that nothing else governs; an armed one says both."""
    shadow = listed("deny", "pl_list", shadow=True)
    leased = policy("pl_real", scope={"tenant": "t", "user": "*", "route": "*"}, capacity=10**9)

    async def test() -> None:
        async with limiter(server.url, tmp_path, leased, shadow) as gateway:
            for tenant in ("t", "nobody"):
                assert [(await gateway.check(tenant, "u", "/r")).allowed for _ in range(50)] == [True] * 50
            refused = {"pl_list": 50}
            assert streamed(gateway) == {"t:u:/r": (50, 0, refused), "nobody:u:/r": (50, 0, refused)}
            gateway.use(policies(leased, shadow, listed("deny", "pl_armed", per=["tenant"])))
            assert not (await gateway.check("t", "armed", "/r")).allowed
            assert streamed(gateway)["t:armed:/r"] == (0, 1, {"pl_list": 1})

    asyncio.run(test())


def streamed(gateway: Limiter) -> dict[str, tuple[int, int, dict[str, int]]]:
    """What the blocks of a gateway add up to by key: allowed, denied, and refused in shadow by policy."""
    recorder: Any = gateway._recorder
    recorder.flush()
    found = totals([(partition, decode(block)) for partition, block in recorder._sink.sent], {})
    return {
        key: (one.allowed, one.denied, {policy_id: count for policy_id, (count, _) in one.shadows.items()})
        for key, one in found.items()
    }


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
