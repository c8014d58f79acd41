"""Leases of killed gateways are settled at the shard that granted them, also after it was fenced and promoted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import redis
from msgspec import structs

from dataflows.limiter.leases.reader import LeaseBatch
from dataflows.limiter.leases.settler import LeaseSettler
from schemas.limiter import limits
from tests.worlds.limiter.counter_server import limiter, policy
from tests.worlds.limiter.lease_reports import Reports
from tests.worlds.limiter.shard_world import PATIENT_S, TENANTS, ShardWorld, servers, shards

if TYPE_CHECKING:
    from pathlib import Path

    from dataflows.limiter.leases.fold import LeaseSettlement
    from limiter import Limiter
    from limiter.stream.lease_book import LeaseReport

__all__ = ["servers", "shards"]  # the fixtures of this module
pytestmark = pytest.mark.servers
LEASED = policy(capacity=100_000, per=["tenant"], failure_mode="open", window_ms=30 * 86_400_000)


@pytest.fixture(autouse=True)
def leases_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than a slow machine takes here: nothing is charged whole by the store meanwhile."""
    monkeypatch.setattr(limits, "LIMIT_LEASE_MS", 60_000)
    monkeypatch.setattr(limits, "LIMIT_LEASE_SETTLE_S", PATIENT_S)
    monkeypatch.setattr(limits, "LIMIT_SHARD_CALL_TIMEOUT_S", PATIENT_S)


async def lease_of(gateway: Limiter, tenant: str, reports: Reports, leased: int = 1) -> None:
    """The gateway has spent so much of the tenant out of leases, and holds one."""
    spent, bucket = 0, None
    async with asyncio.timeout(PATIENT_S):
        while spent < leased or bucket is None or not bucket.lease_id:
            decided = await gateway.check(tenant, "u", "/r")
            assert decided.allowed
            spent += decided.approximate
            bucket = next(b for b in gateway._buckets.values() if b.tenant == tenant)
            gateway._recorder.flush()
            reports.arrive()  # what was held back may be spent


def killed(gateway: Limiter, reports: Reports) -> list[LeaseReport]:
    """Its last reports, as Kafka has them: all that it spent is in them."""
    for bucket in gateway._buckets.values():
        if bucket.account is not None:
            bucket.account.hurry()
    gateway._recorder.flush()
    reports.arrive()
    return [*reports.newest().values()]


def settled(settler: LeaseSettler, reports: list[LeaseReport]) -> list[LeaseSettlement]:
    """What the stream makes of them when it is sure that nothing else will be said."""
    first_us = max(report.ends_at_us for report in reports) - limits.LIMIT_LEASE_MS * 1_000
    now_us = first_us + limits.LIMIT_LEASE_MS * 1_000 + int(limits.LIMIT_LEASE_GRACE_S * 1_000_000)
    read = [(offset, first_us, report) for offset, report in enumerate(reports)]
    return settler.settle(LeaseBatch(0, read, len(reports), now_us, now_us)).settlements


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
                await lease_of(gateway, tenant, reports)
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


async def spent(shards: ShardWorld, folder: Path, name: str, *, returns: bool = False) -> list[LeaseReport]:
    """What a gateway of that name said of the leases of a tenant of that name, out of which it spent."""
    reports = Reports()
    async with limiter(shards.one.url, folder, LEASED, name=name, timeout_s=PATIENT_S, reports=reports) as gateway:
        await lease_of(gateway, name, reports, leased=20)
        if returns:
            await gateway.close()
        return killed(gateway, reports)


async def used(shards: ShardWorld, folder: Path, tenant: str) -> int:
    """What the store has charged a tenant."""
    async with limiter(shards.one.url, folder, LEASED, name="look", timeout_s=PATIENT_S) as gateway:
        shards.told(gateway, folder)
        await gateway.check(tenant, "u", "/r", 0)
        (bucket,) = gateway._buckets.values()
        return (await gateway._store.peek(bucket)).used


def test_a_store_that_lost_everything_is_told_what_leases_spent(
    shards: ShardWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any gateway asks, and by the stream for a gateway that was lost with it. Nothing is added that is not missing."""
    monkeypatch.setattr(limits, "LIMIT_LEASE_PRUNE_S", -1)
    monkeypatch.setattr(limits, "LIMIT_RESTORED_AGAIN_S", 0)
    settler = LeaseSettler(shards.dsns["millrace_leases"], shards.one.url)
    try:
        known: dict[str, int] = {}
        for tenant, returns in (("kept", True), ("left", False)):
            reports = asyncio.run(spent(shards, tmp_path, tenant, returns=returns))
            known[tenant] = sum(each.reported for each in settled(settler, reports))
        lost_too = asyncio.run(spent(shards, tmp_path, "late"))
        before = {tenant: asyncio.run(used(shards, tmp_path, tenant)) for tenant in known}
        with shards.changes() as changes:
            assert changes.restore("main") == (2, 0)
            with redis.Redis.from_url(shards.one.url) as connection:
                connection.flushall()
            assert changes.promote("main", shards.one.address).restored == (2, sum(known.values()))
            assert changes.restore("main") == (2, 0)
            known["late"] = sum(each.reported for each in settled(settler, lost_too))
            assert changes.restore("main") == (3, 0)
    finally:
        settler.close()
    after = {tenant: asyncio.run(used(shards, tmp_path, tenant)) for tenant in known}
    assert after == known
    assert min(known.values()) >= 20
    assert all(after[tenant] <= before[tenant] for tenant in before)


def test_a_shard_is_told_of_its_buckets_only_and_of_all_their_leases(shards: ShardWorld, tmp_path: Path) -> None:
    """A tenant that moved spent out of leases of two shards."""
    settler = LeaseSettler(shards.dsns["millrace_leases"], shards.one.url)
    try:
        both, other = (settled(settler, asyncio.run(spent(shards, tmp_path, name))) for name in ("both", "other"))
        more = settled(settler, asyncio.run(spent(shards, tmp_path / "more", "both")))
    finally:
        settler.close()
    elsewhere = [each.lease_id for each in (*other, *more)]
    shards.world.sql("update limit_lease_settlement set shard = 'b' where lease_id = any(%s)", elsewhere)
    with redis.Redis.from_url(shards.one.url) as connection:
        connection.flushall()
    with shards.changes() as changes:
        assert changes.restore("main") == (1, sum(each.reported for each in (*both, *more)))


def test_an_operator_restores_at_a_shell(shards: ShardWorld) -> None:
    status, said = shards.cli("restore", "main")
    assert (status, said) == (0, "restored from leases: 0 tokens that were missing, 0 counters looked at\n")
    status, said = shards.cli("restore", "nowhere")
    assert (status, "there are: main" in said) == (1, True)
    assert "restored from leases" in shards.cli("promote", "main", "--to", shards.one.address)[1]
    assert "restored from leases" not in shards.cli("promote", "main", "--to", shards.one.address, "--no-restore")[1]
