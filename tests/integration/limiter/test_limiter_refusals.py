"""What a limiter says while it does not ask the store: of refusals that it remembers, and when the store is away."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from schemas import errors
from tests.eventually import patient
from tests.integration.limiter.test_limiter_gateway import burst, recovered
from tests.worlds.limiter.counter_server import CounterServer, emptied, hasty, limiter, policy, server

if TYPE_CHECKING:
    from pathlib import Path

    from limiter import Decision, Limiter
    from limiter.spending.buckets import Bucket

pytestmark = [pytest.mark.servers, pytest.mark.usefixtures("emptied")]
__all__ = ["emptied", "server"]  # the fixtures of this module
AN_HOUR_MS = 3_600_000
BUCKET = {"algorithm": "token_bucket", "window_ms": None, "refill_rate": 2, "refill_period_ms": AN_HOUR_MS}


SLIDING = {"algorithm": "sliding_window", "slots": 1}


@pytest.mark.parametrize("changes", [{}, SLIDING, BUCKET], ids=str)
def test_a_remembered_refusal_says_the_wait_that_the_store_would(
    server: CounterServer, tmp_path: Path, changes: dict[str, Any]
) -> None:
    """And what is left. A dearer request of a bucket waits longer, what never passes never does, the rest is asked for."""

    async def test() -> None:
        async with limiter(server.url, tmp_path, policy(capacity=9, **changes)) as gateway:
            assert await burst(gateway, 7, at_once=1) == 7
            (bucket,) = gateway._buckets.values()
            of_store = {cost: await asked(gateway, bucket, cost) for cost in (10, 5, 3)}
            for cost, first in of_store.items():
                again = gateway.check_now("t", "u", "/r", cost, None)
                if changes == SLIDING and cost == 5:  # another cost was refused last: only the store can say
                    assert again is None
                    continue
                assert again is not None
                assert (again.allowed, again.remaining, first.remaining) == (False, 2, 2)
                if cost == 10:
                    assert (first.retry_after_ms, again.retry_after_ms) == (-1, -1)
                else:
                    assert 0 <= first.retry_after_ms - again.retry_after_ms < AN_HOUR_MS // 60
            if changes == BUCKET:
                waits = of_store[5].retry_after_ms - of_store[3].retry_after_ms
                assert abs(waits - AN_HOUR_MS) < AN_HOUR_MS // 60  # two tokens more

    asyncio.run(test())


async def asked(gateway: Limiter, bucket: Bucket, cost: int) -> Decision:
    """What the store says; it is remembered for long enough for a machine that is slow."""
    bucket.deny_until_ns = 0
    decided = await gateway.check("t", "u", "/r", cost)
    assert not decided.allowed
    bucket.deny_until_ns += 120_000_000_000
    return decided


def test_while_the_store_is_away_one_call_finds_out_and_nobody_else_waits(
    server: CounterServer, tmp_path: Path
) -> None:
    async def test() -> None:
        exact = policy(consistency="exact", failure_mode="closed")
        async with limiter(server.url, tmp_path, exact) as gateway:
            with server.frozen():
                with hasty(gateway):
                    assert (await gateway.check("t", "u", "/r")).degraded
                (bucket,) = gateway._buckets.values()
                gateway._store.store_of((bucket,))._shut_until = 0.0  # it has been left alone for long enough
                asked = [asyncio.ensure_future(gateway.check("t", "u", "/r")) for _ in range(100)]
                async with asyncio.timeout(patient(10)):  # less than the one takes that finds out
                    while sum(each.done() for each in asked) < 99:  # noqa: ASYNC110 - of all but the one
                        await asyncio.sleep(0.01)
                answered = [each for each in asked if each.done()]
                assert len(answered) == 99
                assert {each.result().degraded for each in answered} == {True}
            await asyncio.wait(asked)
            await recovered(gateway)
            assert not (await gateway.check("t", "u", "/r")).degraded

    asyncio.run(test())


def test_in_an_open_outage_an_identity_consumes_once_and_gateways_share(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        opened = policy(capacity=30, failure_mode="open", consistency="exact")
        async with limiter(server.url, tmp_path, opened) as gateway:
            gateway._without_store._gateways = 3
            with server.frozen(), hasty(gateway):
                first, *again = [await gateway.check("t", "u", "/r", 4, "r") for _ in range(4)]
                assert (first.allowed, first.degraded, first.duplicate) == (True, True, False)
                assert {(d.allowed, d.degraded, d.duplicate) for d in again} == {(True, True, True)}
                with pytest.raises(errors.KeyReused):
                    await gateway.check("t", "u", "/r", 5, "r")
                assert await burst(gateway, 20) == 30 // 3 - 4

    asyncio.run(test())
