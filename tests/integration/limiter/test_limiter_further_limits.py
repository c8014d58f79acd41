"""Several limits in one policy at a real Valkey: all have to allow, a request charges all of them once or none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from tests.worlds.limiter.counter_server import CounterServer, emptied, limiter, policies, policy, server

if TYPE_CHECKING:
    from pathlib import Path

    from limiter import Limiter

pytestmark = [pytest.mark.servers, pytest.mark.usefixtures("emptied")]
__all__ = ["emptied", "server"]
DAY_MS = 86_400_000


def several(consistency: str, first: int, second: int, version: int = 1) -> Any:
    further = {"algorithm": "token_bucket", "capacity": second, "refill_rate": 1, "refill_period_ms": 30 * DAY_MS}
    return policy(capacity=first, consistency=consistency, further_limits=[further], version=version)


async def admitted(gateway: Limiter, count: int) -> int:
    decided = [await asyncio.gather(*(gateway.check("t", "u", "/r") for _ in range(10))) for _ in range(count // 10)]
    return sum(one.allowed for some in decided for one in some)


@pytest.mark.parametrize("consistency", ["exact", "leased"])
@pytest.mark.parametrize(("first", "second", "governs"), [(40, 1_000, "pl_a"), (1_000, 40, "pl_a/2")])
def test_the_tightest_limit_governs_and_is_named(
    server: CounterServer, tmp_path: Path, consistency: str, first: int, second: int, governs: str
) -> None:
    async def test() -> None:
        async with limiter(server.url, tmp_path, several(consistency, first, second)) as gateway:
            one = await gateway.check("t", "u", "/r", 1, "once")
            assert (one.allowed, one.policy_id, one.remaining) == (True, governs, 39)
            assert (await gateway.check("t", "u", "/r", 1, "once")).duplicate  # one charge
            assert await admitted(gateway, 60) <= 39
            await gateway.close()  # gives back what leases hold
            assert await admitted(gateway, 100) <= 39
            await gateway.close()
            over = await gateway.check("t", "u", "/r", 41)
            assert (over.allowed, over.policy_id, over.retry_after_ms) == (False, governs, -1)
            key = gateway.governed("t", "u", "/r")
            store = await gateway.store_of(key)
            counted = [await store.peek(bucket) for bucket in key.buckets]
            assert counted[0].used == counted[1].used  # a refusal by one charged none
            assert 30 <= counted[0].used <= 40

    asyncio.run(test())


def test_a_changed_limit_keeps_what_its_place_has_counted(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with limiter(server.url, tmp_path, several("exact", 1_000, 50)) as gateway:
            assert await admitted(gateway, 30) == 30
            gateway.use(policies(several("exact", 1_000, 40, version=2)))
            assert await admitted(gateway, 30) == 10

    asyncio.run(test())


def test_without_the_store_every_limit_holds(server: CounterServer, tmp_path: Path) -> None:
    del server

    async def test() -> None:
        several_open = structs.replace(several("exact", 20, 10), failure_mode="open")
        async with limiter("redis://127.0.0.1:1", tmp_path, several_open, loaded=False) as gateway:
            assert await admitted(gateway, 30) == 10

    asyncio.run(test())
