"""The reply is lost, the command was done: the same identity again, anywhere, is charged once.

Trap 1 of the limiter: a client that repeats after a timeout, or goes to another gateway, consumes twice.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from schemas import errors
from tests.worlds.limiter.counter_server import CounterServer, answer_of_store, limiter, policy, server
from tests.worlds.limiter.store_proxy import StoreProxy

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.servers
__all__ = ["server"]  # the fixtures of this module
PATIENT_S = 60  # no store is away here but where the proxy cuts
EXACT = policy(capacity=10, consistency="exact", failure_mode="closed")


@pytest.mark.parametrize("retried", ["same", "other", "same other same", "other same"])
def test_a_lost_reply_is_charged_once_wherever_it_is_retried(
    server: CounterServer, tmp_path: Path, retried: str
) -> None:
    proxy, user = StoreProxy(server.url), retried

    async def test() -> None:
        async with (
            proxy.url() as url,
            limiter(url, tmp_path, EXACT, timeout_s=PATIENT_S) as one,
            limiter(server.url, tmp_path, EXACT, name="g2", timeout_s=PATIENT_S) as two,
        ):
            proxy.dropping = True
            lost = await one.check("t", user, "/r", 4, "r")
            proxy.dropping = False
            assert (lost.allowed, lost.degraded, proxy.dropped) == (False, True, 1)
            (bucket,) = one._buckets.values()
            assert (await two._store.peek(bucket)).used == 4  # the command was done
            for place in retried.split():
                again = await answer_of_store(one if place == "same" else two, user, 4, "r")
                assert (again.allowed, again.duplicate, again.remaining) == (True, True, 6)
            with pytest.raises(errors.KeyReused):
                await two.check("t", user, "/r", 5, "r")
            assert (await two._store.peek(bucket)).used == 4

    asyncio.run(test())


def test_a_lost_reply_is_not_charged_again_to_a_lease(server: CounterServer, tmp_path: Path) -> None:
    """Another request brings a lease before the retry comes: the store knows whether it charged, the lease does not."""
    proxy, leased = StoreProxy(server.url), policy("pl_l", consistency="leased", failure_mode="closed")

    async def test() -> None:
        async with proxy.url() as url, limiter(url, tmp_path, leased, timeout_s=PATIENT_S) as gateway:
            proxy.dropping = True
            assert (await gateway.check("t", "u", "/r", 1, "r")).degraded
            proxy.dropping = False
            assert not (await answer_of_store(gateway, "u", 0)).degraded
            (bucket,) = gateway._buckets.values()
            while not bucket.left:
                await gateway.check("t", "u", "/r")
            again = await answer_of_store(gateway, "u", 1, "r")
            assert (again.allowed, again.duplicate) == (True, True)

    asyncio.run(test())


@pytest.mark.parametrize("identity", ["r", None])
def test_permits_of_a_refusal_are_given_back_when_the_store_answers_again(
    server: CounterServer, tmp_path: Path, identity: str | None
) -> None:
    """Refused by the failure mode, held at the store: nobody would ever release them."""
    proxy, user = StoreProxy(server.url), f"holds {identity}"
    permits = policy("pl_p", capacity=10, consistency="exact", failure_mode="closed", algorithm="concurrency")

    async def test() -> None:
        async with (
            proxy.url() as url,
            limiter(url, tmp_path, permits, timeout_s=PATIENT_S) as gateway,
            limiter(server.url, tmp_path, permits, name="g2", timeout_s=PATIENT_S) as other,
        ):
            proxy.dropping = True
            assert not (await gateway.check("t", user, "/r", 7, identity)).allowed
            proxy.dropping = False
            bucket = gateway.governed("t", user, "/r").buckets[0]
            assert (await other._store.peek(bucket)).used == 7  # the command was done
            await answer_of_store(gateway, "other", 1)
            await gateway.maintain()
            assert (await other._store.peek(bucket)).used == 0
            again = await gateway.check("t", user, "/r", 7, identity)
            assert (again.allowed, again.duplicate) == (True, False)
            await gateway.maintain()
            assert (await other._store.peek(bucket)).used == 7

    asyncio.run(test())


def test_permits_that_another_gateway_uses_are_not_given_back(server: CounterServer, tmp_path: Path) -> None:
    """The caller went on to another gateway, and its request runs there: with its permits, until it ends."""
    proxy = StoreProxy(server.url)
    permits = policy("pl_p", capacity=10, consistency="exact", failure_mode="closed", algorithm="concurrency")
    level = policy("pl_w", capacity=10, consistency="exact", failure_mode="closed", per=["tenant"])

    async def test() -> None:
        async with (
            proxy.url() as url,
            limiter(url, tmp_path, permits, level, timeout_s=PATIENT_S) as gateway,
            limiter(server.url, tmp_path, permits, level, name="g2", timeout_s=PATIENT_S) as other,
        ):
            proxy.dropping = True
            assert not (await gateway.check("used", "u", "/r", 7, "r")).allowed
            proxy.dropping = False
            assert (await other.check("used", "u", "/r", 7, "r")).duplicate
            await answer_of_store(gateway, "other", 1)
            await gateway.maintain()
            buckets = gateway.governed("used", "u", "/r").buckets
            assert [(await other._store.peek(bucket)).used for bucket in buckets] == [7, 7]
            assert await other.release("used", "u", "/r", "r", 7) == 7
            assert sorted([(await other._store.peek(bucket)).used for bucket in buckets]) == [0, 7]

    asyncio.run(test())
