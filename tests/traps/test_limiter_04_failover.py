"""A primary is lost with what it had not passed on, a replica takes over, and the old one comes back.

Trap 4 of the limiter: the old primary decides again beside the new one, or leases that the new one does not know admit
their quota a second time. Here a real primary and its replica; the link between them is cut, then the primary stands still.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest
import redis

from limiter.decide.quota_lender import QuotaLender
from limiter.decide.quota_shares import Share
from limiter.policy.shard_map import ONE_SHARD, ShardMap
from limiter.store.lease_clock import lease_clock_ns
from limiter.store.shard_server import connected
from limiter.store.store import STALE_EPOCH, CounterStore
from schemas.limiter import limits
from tests.eventually import becomes
from tests.freezing import freeze
from tests.worlds.limiter.counter_server import CounterServer, limiter, policy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from limiter import Limiter
    from limiter.spending.buckets import Bucket
    from limiter.store.store import Counted

pytestmark = pytest.mark.servers
PATIENT_S = 60
CAPACITY = 400
YEAR_MS = 365 * 24 * 3_600_000
WINDOW = {"capacity": CAPACITY, "window_ms": YEAR_MS, "failure_mode": "stale"}
EXACT = policy("pl_exact", consistency="exact", scope={"tenant": "exact"}, **WINDOW)
LEASED = policy("pl_leased", scope={"tenant": "leased"}, **WINDOW)
#: ten seconds of it, which a replica may be behind, are 32
CLOSED = policy(
    "pl_closed",
    consistency="exact",
    scope={"tenant": "closed"},
    capacity=100_000_000,
    window_ms=YEAR_MS,
    failure_mode="closed",
)


class Failover:
    """A primary and a replica in step, and the maps before and after."""

    def __init__(self, folder: Path) -> None:
        self.old = CounterServer(folder / "old")
        self.new = CounterServer(folder / "new", of=self.old)
        self.new.follow(self.old)
        self.after = ONE_SHARD.with_reserved({"main": 1}).with_primary("main", self.new.address, int(time.time()))

    def cut(self) -> None:
        """The replica has all until now, and nothing of what comes."""
        with redis.Redis.from_url(self.old.url) as old, redis.Redis.from_url(self.new.url) as new:
            assert old.wait(1, PATIENT_S * 1_000) == 1
            new.config_set("masterauth", "wrong")
            new.client_kill_filter(_type="master")
            becomes(lambda: new.info("replication")["master_link_status"], "down", what="a cut")
            old.config_set("min-replicas-to-write", 0)

    def promote(self) -> None:
        """As ``millrace limiter shards promote``, with an old primary that does not answer."""
        freeze(self.old.process.pid)
        with connected(self.new.url) as server:
            server.become_primary()
            server.raise_epoch(1)

    def bring_back(self) -> None:
        """The old primary goes on where it stood."""
        os.kill(self.old.process.pid, signal.SIGCONT)

    def find_itself_alone(self) -> None:
        """It is set up as the runbook says, and has seen that nobody follows it."""
        with redis.Redis.from_url(self.old.url) as old:
            old.config_set("min-replicas-to-write", 1)

    def close(self) -> None:
        for server in (self.old, self.new):
            server.close()


@pytest.fixture
def failover(tmp_path: Path) -> Iterator[Failover]:
    made = Failover(tmp_path)
    yield made
    made.close()


async def gateways(stack: AsyncExitStack, failover: Failover, folder: Path, count: int = 2) -> list[Limiter]:
    found = [
        limiter(failover.old.url, folder, EXACT, LEASED, CLOSED, name=f"g{n}", timeout_s=PATIENT_S)
        for n in range(count)
    ]
    return [await stack.enter_async_context(one) for one in found]


async def admitted(gateway: Limiter, tenant: str, count: int) -> int:
    decided = [await gateway.check(tenant, "u", "/r") for _ in range(count)]
    assert not any(d.degraded for d in decided)
    return sum(d.allowed for d in decided)


def bucket_of(gateway: Limiter, tenant: str) -> Bucket:
    (found,) = [bucket for bucket in gateway._buckets.values() if bucket.tenant == tenant]
    return found


async def held(url: str, bucket: Bucket, epoch: int = 0) -> Counted:
    """What a server has of a bucket, whatever gateways think of the server."""
    store = CounterStore(url, timeout_s=PATIENT_S)
    store.epoch = epoch
    try:
        return await store.peek(bucket)
    finally:
        await store.close()


def use(gateway: Limiter, shard_map: ShardMap) -> None:
    store: Any = gateway._store
    store.use(shard_map)


def test_what_was_charged_and_not_passed_on_is_all_that_is_admitted_again(
    failover: Failover, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bound: the capacity and the lost debits, to the last one. Leases that the new primary never heard of add nothing."""
    monkeypatch.setattr(limits, "LIMIT_LEASE_MS", 60_000)  # longer than a slow machine takes here

    async def test() -> None:
        async with AsyncExitStack() as stack:
            one, two = await gateways(stack, failover, tmp_path)
            exact, leased = await admitted(one, "exact", 100), await admitted(one, "leased", 1)
            failover.cut()
            exact += await admitted(two, "exact", 70)
            while not (bucket := bucket_of(one, "leased")).left > 5:
                leased += await admitted(one, "leased", 1)
            leased += await admitted(one, "leased", 3)
            old, new = await held(failover.old.url, bucket), await held(failover.new.url, bucket)
            lost = old.used - new.used
            assert (old.reserved, new.reserved) == (bucket.granted, 0)
            lease, left = bucket.lease_id, bucket.left
            await asyncio.to_thread(failover.promote)
            use(one, failover.after)
            assert await admitted(one, "leased", 1) == 1  # leases go on, before the new primary is asked anything
            await one.maintain()
            assert (await held(failover.new.url, bucket, 1)).reserved == bucket.granted
            failover.bring_back()
            # Who has the new map is not answered by the old primary.
            assert await decide(failover.old.url, bucket_of(two, "exact"), epoch=1) == [STALE_EPOCH, 0]
            # Who has the old map is answered by nobody: not by the new primary, and not by the old one.
            assert await decide(failover.new.url, bucket_of(two, "exact"), epoch=0) == [STALE_EPOCH, 1]
            failover.find_itself_alone()
            assert (await two.check("exact", "u", "/r")).degraded
            use(two, failover.after)
            exact += sum([await admitted(gateway, "exact", CAPACITY) for gateway in (one, two)])
            assert exact == CAPACITY + 70
            assert (bucket.lease_id, bucket.left) == (lease, left - 1)  # no new lease while it learns
            leased += 1 + sum([await admitted(gateway, "leased", CAPACITY) for gateway in (two, one)])
            assert not bucket_of(two, "leased").lease_id
            bucket.end_lease()
            await one.maintain()
            leased += sum([await admitted(gateway, "leased", CAPACITY) for gateway in (two, one)])
            assert CAPACITY <= leased <= CAPACITY + lost
            counted = await held(failover.new.url, bucket, 1)
            assert (counted.used, counted.reserved) == (CAPACITY, 0)

    asyncio.run(test())


async def decide(url: str, bucket: Bucket, epoch: int) -> list[int]:
    store = CounterStore(url, timeout_s=PATIENT_S)
    store.epoch = epoch
    try:
        return await store.decide([bucket], [bucket.plain_terms], 1, b"", b"", b"l")
    finally:
        await store.close()


async def lent(lender: QuotaLender, share: Share, gateway: Limiter) -> int:
    """What an Envoy is given that was asked for sixty requests."""
    share.report(0, 60, lease_clock_ns())
    assigned = await lender.lend(share, gateway.governed("exact", "u", "/r"))
    assert assigned is not None
    assert assigned.rule == "tokens"
    return assigned.tokens


def test_what_was_lent_and_not_passed_on_is_admitted_again_at_most_once(
    failover: Failover, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bound of quota that Envoys hold, at its worst: others ask the new primary for all before it hears what was lent."""
    monkeypatch.setattr(limits, "LIMIT_RLQS_LEASE_MS", 600_000)  # longer than a slow machine takes here

    async def test() -> None:
        async with AsyncExitStack() as stack:
            one, two = await gateways(stack, failover, tmp_path)
            lender = QuotaLender(one, one._store, one._recorder, "g")
            shares = [Share(lease_clock_ns()) for _ in range(2)]
            passed_on = await admitted(one, "exact", 100)
            known = await lent(lender, shares[0], one)
            failover.cut()
            debits = await admitted(two, "exact", 30)
            lost = await lent(lender, shares[1], one)
            await asyncio.to_thread(failover.promote)
            use(two, failover.after)
            taken = await admitted(two, "exact", CAPACITY)
            assert taken == CAPACITY - passed_on - known  # what the replica knew of is nobody else's
            use(one, failover.after)
            bucket = bucket_of(two, "exact")
            for share in shares:
                await lender.keep(share)
            counted = await held(failover.new.url, bucket, 1)
            assert (counted.used, counted.reserved) == (passed_on + taken, known)  # as far as there is room
            for share in shares:
                (lease,) = share.leases
                share.report(lease.tokens, 0, lease_clock_ns())
                await lender.settle(share)
            counted = await held(failover.new.url, bucket, 1)
            assert (counted.used, counted.reserved) == (CAPACITY, 0)
            assert await admitted(two, "exact", 10) == 0
            assert lost > 0
            assert passed_on + debits + taken + known + lost == CAPACITY + debits + lost

    asyncio.run(test())


def test_no_lease_is_granted_until_what_is_held_is_known(
    failover: Failover, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For as long as a lease lives after the new primary took over: decisions go to the store one by one."""
    monkeypatch.setattr(limits, "LIMIT_LEASE_MS", 60_000)

    async def test() -> None:
        async with AsyncExitStack() as stack:
            (gateway,) = await gateways(stack, failover, tmp_path, 1)
            await admitted(gateway, "leased", 1)
            await asyncio.to_thread(failover.promote)
            use(gateway, failover.after)
            asked = gateway.store_calls
            assert await admitted(gateway, "leased", 100) == 100
            assert gateway.store_calls - asked == 100
            assert not bucket_of(gateway, "leased").lease_id
            store: Any = gateway._store
            store.stores["main"].learning_until_ns = lease_clock_ns()
            while not bucket_of(gateway, "leased").lease_id:
                assert await admitted(gateway, "leased", 1) == 1

    asyncio.run(test())


def test_a_closed_policy_is_charged_what_may_have_been_lost_once(failover: Failover, tmp_path: Path) -> None:
    async def test() -> None:
        async with AsyncExitStack() as stack:
            one, two = await gateways(stack, failover, tmp_path)
            first = await admitted(one, "closed", 20)
            await asyncio.to_thread(failover.promote)
            for gateway in (one, two):
                use(gateway, failover.after)
            assert [await admitted(gateway, "closed", 1) for gateway in (one, two)] == [1, 1]
            counted = await held(failover.new.url, bucket_of(one, "closed"), 1)
            assert counted.used == first + 2 + 32

    asyncio.run(test())
