"""What a limiter says while it does not ask the store: of refusals that it remembers, and when the store is away."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from schemas import errors
from tests.counter_server import CounterServer, emptied, limiter, policy, server
from tests.integration.test_limiter_gateway import SLACK_S, burst, recovered

if TYPE_CHECKING:
    from pathlib import Path

    from limiter import Limiter
    from limiter.buckets import Bucket

pytestmark = [pytest.mark.servers, pytest.mark.usefixtures("emptied")]
__all__ = ["emptied", "server"]  # the fixtures of this module
BUCKET = {"algorithm": "token_bucket", "window_ms": None, "refill_rate": 2, "refill_period_ms": 3_600_000}


@pytest.mark.parametrize("changes", [{}, {"algorithm": "sliding_window", "slots": 1}, BUCKET], ids=str)
def test_a_remembered_refusal_says_the_wait_that_the_store_would(
    server: CounterServer, tmp_path: Path, changes: dict[str, Any]
) -> None:
    """And what is left; a dearer request of a bucket waits longer, and what never passes never does."""

    async def test() -> None:
        async with limiter(server.url, tmp_path, policy(capacity=9, **changes), timeout_s=60) as gateway:
            assert await burst(gateway, 7, at_once=1) == 7
            for cost in (3, 5, 10):
                asked = gateway.store_calls
                told = [await gateway.check("t", "u", "/r", cost) for _ in range(3)]
                assert not any(d.allowed for d in told)
                assert {d.remaining for d in told} == {2}
                if cost > 9:
                    assert {d.retry_after_ms for d in told} == {-1}
                else:
                    assert max(d.retry_after_ms for d in told) - min(d.retry_after_ms for d in told) < 1_000 * SLACK_S
                    assert min(d.retry_after_ms for d in told) > (1_800_000 * (cost - 3) if changes == BUCKET else 0)
                assert gateway.store_calls - asked < len(told) + (cost == 3)
            (bucket,) = gateway._buckets.values()
            bucket.deny_until_ns = 0
            anew = await gateway.check("t", "u", "/r", 3)
            assert abs(anew.retry_after_ms - told_of(bucket, gateway, 3)) < 1_000 * SLACK_S

    asyncio.run(test())


def told_of(bucket: Bucket, gateway: Limiter, cost: int) -> int:
    """What is remembered now."""
    assert bucket.deny_cost == cost
    known = gateway.check_now("t", "u", "/r", cost, None)
    assert known is not None
    assert not known.allowed
    return known.retry_after_ms


def test_while_the_store_is_away_one_call_finds_out_and_nobody_else_waits(
    server: CounterServer, tmp_path: Path
) -> None:
    async def test() -> None:
        exact = policy(consistency="exact", failure_mode="closed")
        async with limiter(server.url, tmp_path, exact, timeout_s=3) as gateway:
            with server.frozen():
                assert (await gateway.check("t", "u", "/r")).degraded
                (bucket,) = gateway._buckets.values()
                gateway._store.store_of((bucket,))._shut_until = 0.0  # it has been left alone for long enough
                asked = [asyncio.ensure_future(gateway.check("t", "u", "/r")) for _ in range(100)]
                answered, waiting = await asyncio.wait(asked, timeout=1)
                assert (len(answered), len(waiting)) == (99, 1)
                assert {each.result().degraded for each in answered} == {True}
            await asyncio.wait(waiting)
            await recovered(gateway)
            assert not (await gateway.check("t", "u", "/r")).degraded

    asyncio.run(test())


def test_in_an_open_outage_an_identity_consumes_once_and_gateways_share(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        opened = policy(capacity=30, failure_mode="open", consistency="exact")
        async with limiter(server.url, tmp_path, opened) as gateway:
            gateway._without_store._gateways = 3
            with server.frozen():
                first, *again = [await gateway.check("t", "u", "/r", 4, "r") for _ in range(4)]
                assert (first.allowed, first.degraded, first.duplicate) == (True, True, False)
                assert {(d.allowed, d.degraded, d.duplicate) for d in again} == {(True, True, True)}
                with pytest.raises(errors.KeyReused):
                    await gateway.check("t", "u", "/r", 5, "r")
                assert await burst(gateway, 20) == 30 // 3 - 4

    asyncio.run(test())
