"""Leases of killed gateways are settled at the shard that granted them, also after it was fenced and promoted."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest
import redis
from msgspec import structs

from dataflows.limiter.leases.reader import LeaseBatch
from dataflows.limiter.leases.settler import LeaseSettler
from schemas import limits
from tests.counter_server import limiter, policy
from tests.lease_reports import Reports
from tests.shard_world import PATIENT_S, TENANTS, ShardWorld, servers, shards

if TYPE_CHECKING:
    from pathlib import Path

    from dataflows.limiter.leases.fold import Settlement
    from limiter import Limiter
    from limiter.lease_book import LeaseReport

__all__ = ["servers", "shards"]  # the fixtures of this module
pytestmark = pytest.mark.servers
LEASED = policy(capacity=100_000, per=["tenant"], failure_mode="open", window_ms=30 * 86_400_000)


@pytest.fixture(autouse=True)
def leases_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than a slow machine takes here: nothing is charged whole by the store meanwhile."""
    monkeypatch.setattr(limits, "LIMIT_LEASE_MS", 60_000)
    monkeypatch.setattr(limits, "LIMIT_LEASE_SETTLE_S", PATIENT_S)
    monkeypatch.setattr(limits, "LIMIT_SHARD_CALL_TIMEOUT_S", PATIENT_S)


async def lease_of(gateway: Limiter, tenant: str) -> None:
    """The gateway holds a lease of the tenant, and has spent some of it."""
    bucket = None
    async with asyncio.timeout(PATIENT_S):
        while bucket is None or bucket.left < 2:
            assert (await gateway.check(tenant, "u", "/r")).allowed
            bucket = next(b for b in gateway._buckets.values() if b.tenant == tenant)
    assert (await gateway.check(tenant, "u", "/r")).approximate


def killed(gateway: Limiter, reports: Reports) -> list[LeaseReport]:
    """Its last reports, as Kafka has them."""
    gateway._recorder.flush()
    reports.arrive()
    return [*reports.newest().values()]


def settled(settler: LeaseSettler, reports: list[LeaseReport]) -> list[Settlement]:
    """What the stream makes of them when it is sure that nothing else will be said."""
    now_us = max(report.ends_at_us for report in reports) + int(limits.LIMIT_LEASE_GRACE_S * 1_000_000)
    return settler.settle(LeaseBatch(0, [*enumerate(reports)], len(reports), now_us)).settlements


def test_a_lease_is_settled_at_its_shard_by_the_newest_map(shards: ShardWorld, tmp_path: Path) -> None:
    """Two shards, then a promotion: the same settler follows, and what was not spent is released at both."""

    async def spent_and_killed(name: str, *, says_shard: bool) -> tuple[list[LeaseReport], dict[str, str]]:
        reports = Reports()
        async with limiter(
            shards.one.url, tmp_path, LEASED, name=name, timeout_s=PATIENT_S, reports=reports
        ) as gateway:
            shards.told(gateway, tmp_path)
            homes = {tenant: gateway._store.map.layout.home_of(tenant) for tenant in TENANTS}
            for tenant in homes:
                await lease_of(gateway, tenant)
            found = killed(gateway, reports)
        assert {report.shard for report in found} == set(homes.values())
        return found if says_shard else [structs.replace(report, shard="") for report in found], homes

    async def reserved() -> int:
        async with limiter(shards.one.url, tmp_path, LEASED, name="look", timeout_s=PATIENT_S) as gateway:
            shards.told(gateway, tmp_path)
            for tenant in TENANTS:
                await gateway.check(tenant, "u", "/r", 0)
            counted = [await gateway._store.peek(bucket) for bucket in gateway._buckets.values()]
            return sum(found.reserved for found in counted)

    settler = LeaseSettler(shards.dsns["millrace_leases"], shards.one.url)
    try:
        with shards.changes() as changes:
            changes.add("b", shards.two.address)
        for name, says_shard in (("added", True), ("unsaid", False), ("promoted", True)):
            reports, homes = asyncio.run(spent_and_killed(name, says_shard=says_shard))
            assert set(homes.values()) == {"main", "b"}
            if name == "promoted":
                with shards.changes() as changes:
                    changes.promote("main", shards.one.address)
                    changes.promote("b", shards.two.address)
            found = settled(settler, reports)
            assert {each.lease_id for each in found} == {report.lease_id for report in reports}
            assert {each.reason for each in found} == {"expired"}
            assert sum(each.released for each in found) > 0
            assert asyncio.run(reserved()) == 0
    finally:
        settler.close()


def test_a_store_that_lost_everything_is_told_what_leases_spent(shards: ShardWorld, tmp_path: Path) -> None:
    """Returned and left behind, before any gateway asks; told again nothing is added, nor where nothing was lost."""

    async def spent(name: str, *, returns: bool) -> list[LeaseReport]:
        reports = Reports()
        async with limiter(
            shards.one.url, tmp_path, LEASED, name=name, timeout_s=PATIENT_S, reports=reports
        ) as gateway:
            for _ in range(20):
                await lease_of(gateway, name)
            if returns:
                await gateway.close()
            return killed(gateway, reports)

    async def counted(tenant: str) -> tuple[int, int]:
        async with limiter(shards.one.url, tmp_path, LEASED, name="look", timeout_s=PATIENT_S) as gateway:
            shards.told(gateway, tmp_path)
            await gateway.check(tenant, "u", "/r", 0)
            (bucket,) = gateway._buckets.values()
            found = await gateway._store.peek(bucket)
            return found.used, found.reserved

    settler = LeaseSettler(shards.dsns["millrace_leases"], shards.one.url)
    try:
        reports = asyncio.run(spent("kept", returns=True)) + asyncio.run(spent("left", returns=False))
        known: Counter[str] = Counter()
        for each in settled(settler, reports):
            known[each.key_hash] += each.reported
    finally:
        settler.close()
    before = {tenant: asyncio.run(counted(tenant)) for tenant in ("kept", "left")}
    with shards.changes() as changes:
        assert changes.restore("main") == (2, 0)
        with redis.Redis.from_url(shards.one.url) as connection:
            connection.flushall()
        promoted = changes.promote("main", shards.one.address)
        assert promoted.restored == (2, sum(known.values()))
        assert changes.restore("main") == (2, 0)
    after = {tenant: asyncio.run(counted(tenant)) for tenant in ("kept", "left")}
    assert sorted(used for used, _ in after.values()) == sorted(known.values())
    assert min(known.values()) >= 20
    assert all(0 < after[tenant][0] <= before[tenant][0] for tenant in after)
    status, said = shards.cli("restore", "main")
    assert (status, said) == (0, "restored from leases: 0 tokens that were missing, 2 counters looked at\n")
    status, said = shards.cli("restore", "nowhere")
    assert (status, "there are: main" in said) == (1, True)
