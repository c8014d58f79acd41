"""The limiter on a real Valkey: what leases, identities, levels, new versions and a store that is away may admit."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
import redis

from limiter.store.lease_clock import lease_clock_ns
from limiter.store.store import StoreUnavailable
from schemas import errors
from schemas.limiter import limits
from tests.eventually import patient
from tests.worlds.limiter.counter_server import CounterServer, emptied, hasty, limiter, policies, policy, server

if TYPE_CHECKING:
    from pathlib import Path

    from limiter import Decision, Limiter

pytestmark = [pytest.mark.servers, pytest.mark.usefixtures("emptied")]
__all__ = ["emptied", "server"]  # the fixtures of this module
SLACK_S = 5.0  # of a loaded machine


@pytest.fixture(autouse=True)
def leases_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than a slow machine takes here: none ends between two steps of a test."""
    monkeypatch.setattr(limits, "LIMIT_LEASE_MS", 60_000)


async def burst(gateway: Limiter, count: int, at_once: int = 50, user: str = "u", **asked: Any) -> int:
    """How many of ``count`` were allowed."""
    allowed = 0
    for at in range(0, count, at_once):
        some = range(min(at_once, count - at))
        decided = await asyncio.gather(*(gateway.check("t", user, "/r", **asked) for _ in some))
        allowed += sum(d.allowed for d in decided)
    return allowed


async def with_lease(gateway: Limiter, at_least: int = 1, user: str = "u") -> int:
    """Asks until the newest bucket has a lease that nothing else was spent of; gives what was allowed meanwhile."""
    allowed = int((await gateway.check("t", user, "/r")).allowed)
    while [*gateway._buckets.values()][-1].left < at_least:
        allowed += (await gateway.check("t", user, "/r")).allowed
    return allowed


def test_a_lease_is_spent_without_the_store(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with limiter(server.url, tmp_path, policy(capacity=1_000_000)) as gateway:
            assert await burst(gateway, 20_000) == 20_000
            assert gateway.store_calls < 20_000 * 0.05

    asyncio.run(test())


def test_a_gateway_that_was_killed_admits_nothing_again(server: CounterServer, tmp_path: Path) -> None:
    """Two gateways on one key, one ends without settling: what it held counts as spent."""

    async def test() -> None:
        capped = policy(capacity=2_000)
        async with limiter(server.url, tmp_path, capped, name="g2") as survivor:
            async with limiter(server.url, tmp_path, capped) as killed:
                first = await with_lease(killed, at_least=20) + await burst(killed, 10)
            second = 0
            for _ in range(60):
                second += await burst(survivor, 50)
                await survivor.maintain()
            assert 1_700 <= first + second <= 2_000

    asyncio.run(test())


def test_a_lease_that_ran_out_is_not_spent(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with limiter(server.url, tmp_path, policy()) as gateway:
            await with_lease(gateway, at_least=5)
            (bucket,) = gateway._buckets.values()
            bucket.lease_ends_ns = lease_clock_ns()
            assert gateway.check_now("t", "u", "/r", 1, None) is None

    asyncio.run(test())


@pytest.mark.parametrize("consistency", ["exact", "leased"])
def test_a_retry_consumes_once(server: CounterServer, tmp_path: Path, consistency: str) -> None:
    async def test() -> None:
        async with limiter(server.url, tmp_path, policy(capacity=40, consistency=consistency)) as gateway:
            names = [f"r{n % 20}" for n in range(200)]
            decided = await asyncio.gather(*(gateway.check("t", "u", "/r", 1, name) for name in names))
            assert all(d.allowed for d in decided)
            assert sum(not d.duplicate for d in decided) == 20
            assert await burst(gateway, 100) == 20

    asyncio.run(test())


def test_a_retry_at_another_gateway_consumes_once(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        exact = policy(capacity=10, consistency="exact")
        async with limiter(server.url, tmp_path, exact) as one, limiter(server.url, tmp_path, exact, name="g2") as two:
            first, again = await one.check("t", "u", "/r", 4, "r"), await two.check("t", "u", "/r", 4, "r")
            assert (first.allowed, first.duplicate, again.allowed, again.duplicate) == (True, False, True, True)
            assert await burst(two, 20) == 6

    asyncio.run(test())


def test_a_retry_after_a_level_was_added(server: CounterServer, tmp_path: Path) -> None:
    """The stored answer is of fewer policies than govern the key now."""

    async def test() -> None:
        exact = policy(capacity=10, consistency="exact")
        tenants = policy("pl_b", capacity=5, consistency="exact", per=["tenant"])
        async with (
            limiter(server.url, tmp_path, exact) as one,
            limiter(server.url, tmp_path, exact, tenants, name="g2") as two,
        ):
            await one.check("t", "u", "/r", 1, "r")
            again = await two.check("t", "u", "/r", 1, "r")
            assert (again.allowed, again.duplicate) == (True, True)

    asyncio.run(test())


def test_a_retry_does_not_spend_the_lease_that_came_meanwhile(server: CounterServer, tmp_path: Path) -> None:
    """The store is being asked about an identity while another request brings a lease."""

    async def test() -> None:
        async with limiter(server.url, tmp_path, policy()) as gateway:
            await with_lease(gateway, at_least=5)
            (bucket,) = gateway._buckets.values()
            first = asyncio.create_task(gateway.check("t", "u", "/r", bucket.left + 1, "r"))
            await asyncio.sleep(0)
            bucket.left, bucket.lease_ends_ns = 1_000, lease_clock_ns() + 10**10
            assert gateway.check_now("t", "u", "/r", 1, "r") is None
            assert gateway.check_now("t", "u", "/r", 1, "other") is not None
            await first

    asyncio.run(test())


def test_an_identity_keeps_its_cost(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        exact = policy(capacity=10, consistency="exact")
        async with limiter(server.url, tmp_path, exact) as one, limiter(server.url, tmp_path, exact, name="g2") as two:
            await one.check("t", "u", "/r", 2, "r")
            for gateway in (one, two):
                with pytest.raises(errors.KeyReused):
                    await gateway.check("t", "u", "/r", 3, "r")
            assert await burst(two, 20) == 8

    asyncio.run(test())


def test_a_large_refusal_does_not_refuse_small_ones(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with limiter(server.url, tmp_path, policy(capacity=5)) as gateway:
            assert not (await gateway.check("t", "u", "/r", 10)).allowed
            (bucket,) = gateway._buckets.values()
            bucket.deny_until_ns += 10**12  # it is remembered for long enough for a machine that is slow
            refused = gateway.check_now("t", "u", "/r", 10, None)
            assert refused is not None
            assert not refused.allowed
            assert (await gateway.check("t", "u", "/r", 1)).allowed

    asyncio.run(test())


@pytest.mark.parametrize("cost", [-1, limits.LIMIT_COST_MAX + 1, 2**40, 2**64])
def test_a_cost_that_is_none_consumes_nothing(server: CounterServer, tmp_path: Path, cost: int) -> None:
    async def test() -> None:
        async with limiter(server.url, tmp_path, policy(capacity=5)) as gateway:
            await gateway.check("t", "u", "/r", 10)  # a refusal that is remembered
            with pytest.raises(errors.InvalidCommand):
                await gateway.check("t", "u", "/r", cost)
            assert await burst(gateway, 20) == 5

    asyncio.run(test())


def test_a_shadow_policy_never_refuses(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with limiter(server.url, tmp_path, policy(capacity=3, shadow=True)) as gateway:
            assert await burst(gateway, 20) == 20
            gateway.use(policies(policy(capacity=3, shadow=True), policy("pl_b", capacity=8)))
            assert await burst(gateway, 20) == 8

    asyncio.run(test())


def test_a_thousand_first_requests_on_a_cold_key(server: CounterServer, tmp_path: Path) -> None:
    """Two levels, all at once: exactly the capacity, and the other level is charged for the allowed ones only."""

    async def test() -> None:
        narrow = policy(capacity=137, consistency="exact")
        wide = policy("pl_b", capacity=300, consistency="exact", per=["tenant"])
        async with limiter(server.url, tmp_path, narrow, wide) as gateway:
            decided = await asyncio.gather(*(gateway.check("t", "u", "/r") for _ in range(1_000)))
            assert not any(d.degraded for d in decided)
            assert sum(d.allowed for d in decided) == 137
            assert await burst(gateway, 300, user="v") == 137
            assert await burst(gateway, 300, user="w") == 300 - 2 * 137

    asyncio.run(test())


def test_a_new_version_ends_leases(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with limiter(server.url, tmp_path, policy()) as gateway:
            assert gateway.is_idle
            spent = await with_lease(gateway, at_least=5) + await burst(gateway, 3)
            assert not gateway.is_idle
            gateway.use(policies(policy(version=2, capacity=100)))
            assert gateway.check_now("t", "u", "/r", 1, None) is None
            assert not gateway.is_idle  # else what the lease spent is settled later
            await gateway.maintain()  # settles it
            assert gateway.is_idle
            assert await burst(gateway, 300) == max(0, 100 - spent)

    asyncio.run(test())


def test_permits_and_leases_follow_one_another_in_versions_of_one_policy(server: CounterServer, tmp_path: Path) -> None:
    """Each lies where the other one finds nothing: no version waits until what the one before holds has ended."""
    permits = [policy(version=n, algorithm="concurrency", capacity=9, consistency="exact") for n in (1, 3)]

    async def test() -> None:
        async with limiter(server.url, tmp_path, permits[0]) as gateway:
            assert (await gateway.check("t", "u", "/r", 2, "held")).remaining == 7
            gateway.use(policies(policy(version=2, capacity=100_000)))
            assert await burst(gateway, 2_000) == 2_000
            assert gateway.leases() == 1
            gateway.use(policies(permits[1]))
            assert (await gateway.check("t", "u", "/r", 1, "more")).remaining == 6
            assert await gateway.release("t", "u", "/r", "held", 2) == 2
            await gateway.maintain()
            assert not gateway.degraded

    asyncio.run(test())


def test_what_a_store_of_another_epoch_refuses_is_settled_later(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with limiter(server.url, tmp_path, policy()) as gateway:
            spent = await with_lease(gateway, at_least=5) + await burst(gateway, 3)
            (bucket,) = gateway._buckets.values()
            bucket.end_lease()
            with redis.Redis.from_url(server.url) as connection:
                connection.set("rl:epoch", 1)
                with pytest.raises(StoreUnavailable):
                    await gateway.maintain()
                connection.delete("rl:epoch")
            await gateway.maintain()
            counted = await gateway._store.peek(bucket)
            assert (counted.used, counted.reserved) == (spent, 0)

    asyncio.run(test())


def test_a_bucket_that_the_store_refuses_holds_up_no_other(server: CounterServer, tmp_path: Path) -> None:
    """One key holds what is not ours: its lease stays unsettled, the others are settled and decided."""

    async def test() -> None:
        async with limiter(server.url, tmp_path, policy()) as gateway:
            for user in ("u", "v"):
                await with_lease(gateway, user=user)
            refused, other = gateway._buckets.values()
            for bucket in (refused, other):
                bucket.end_lease()
            with redis.Redis.from_url(server.url) as connection:
                connection.delete(*refused.keys)
                connection.lpush(refused.keys[1].decode(), "not ours")
                with pytest.raises(StoreUnavailable):
                    await gateway.maintain()
                assert (await gateway._store.peek(other)).reserved == 0
                assert (len(refused.settling), len(other.settling)) == (1, 0)
                assert not (await gateway.check("t", "v", "/r")).degraded
                connection.delete(refused.keys[1].decode())
            await gateway.maintain()
            assert not refused.settling

    asyncio.run(test())


async def outage(gateway: Limiter, server: CounterServer) -> Decision:
    """The first decision that the store does not answer; it ends within the bound of one call."""
    with server.frozen(), hasty(gateway):
        since = time.monotonic()
        decided = await gateway.check("t", "u", "/r", 200)  # more than a lease may hold
        assert time.monotonic() - since < patient(2 * limits.LIMIT_STORE_TIMEOUT_S + SLACK_S)
        since = time.monotonic()
        await burst(gateway, 200)
        assert time.monotonic() - since < patient(2 * limits.LIMIT_STORE_TIMEOUT_S + SLACK_S)  # it is left alone
    return decided


@pytest.mark.parametrize(("mode", "allowed"), [("open", True), ("closed", False), ("stale", False)])
def test_without_the_store_the_failure_mode_decides(
    server: CounterServer, tmp_path: Path, mode: str, allowed: bool
) -> None:
    async def test() -> None:
        async with limiter(server.url, tmp_path, policy(failure_mode=mode, consistency="exact")) as gateway:
            await gateway.check("t", "u", "/r")
            decided = await outage(gateway, server)
            assert (decided.allowed, decided.degraded) == (allowed, True)
            await recovered(gateway)

    asyncio.run(test())


async def recovered(gateway: Limiter) -> None:
    """It answers from the store again by itself."""
    deadline = time.monotonic() + patient(30)
    while (await gateway.check("t", "other", "/r")).degraded:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


def test_an_open_outage_admits_the_capacity_of_a_level_once(server: CounterServer, tmp_path: Path) -> None:
    """The emergency counter is that of the policy: one for the whole tenant, whatever users it has."""

    async def test() -> None:
        tenants = policy(capacity=30, failure_mode="open", per=["tenant"], consistency="exact")
        async with limiter(server.url, tmp_path, tenants) as gateway:
            with server.frozen(), hasty(gateway):
                admitted = sum([await burst(gateway, 25, user=f"u{n}") for n in range(3)])
            assert admitted == 30

    asyncio.run(test())


def test_stale_spends_the_lease_that_is_held_and_then_refuses(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with limiter(server.url, tmp_path, policy(failure_mode="stale")) as gateway:
            await with_lease(gateway, at_least=5)
            (bucket,) = gateway._buckets.values()
            held = bucket.left
            with server.frozen(), hasty(gateway):
                decided = [await gateway.check("t", "u", "/r") for _ in range(held + 3)]
            assert [d.allowed for d in decided] == [True] * held + [False] * 3
            assert [d.degraded for d in decided] == [False] * held + [True] * 3
            await recovered(gateway)

    asyncio.run(test())


def test_functions_that_were_flushed_are_loaded_again(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with limiter(server.url, tmp_path, policy(capacity=10, consistency="exact")) as gateway:
            assert await burst(gateway, 4) == 4
            with redis.Redis.from_url(server.url) as connection:
                connection.function_flush("SYNC")
            decided = await asyncio.gather(*(gateway.check("t", "u", "/r") for _ in range(20)))
            assert (sum(d.allowed for d in decided), any(d.degraded for d in decided)) == (6, False)

    asyncio.run(test())


def test_a_full_store_is_an_outage_and_no_error(server: CounterServer, tmp_path: Path) -> None:
    """An answer that says no (memory is full) is a store that is away: the failure mode, flagged."""

    async def test() -> None:
        async with limiter(server.url, tmp_path, policy(failure_mode="closed", consistency="exact")) as gateway:
            with redis.Redis.from_url(server.url) as connection:
                connection.config_set("maxmemory", "1")
                try:
                    decided = await gateway.check("t", "u", "/r")
                finally:
                    connection.config_set("maxmemory", "0")
            assert (decided.allowed, decided.degraded) == (False, True)
            await recovered(gateway)

    asyncio.run(test())
