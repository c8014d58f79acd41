"""An identity that two gateways charged out of leases is given back at the store, once, on real servers."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import redis

from dataflows.limiter.identities.reader import Arrived, ChargeBatch
from dataflows.limiter.identities.refunder import SQL, LeaseRefunder
from dataflows.limiter.leases.settler import LeaseSettler
from limiter.policy.keys import signed_hash
from limiter.store.shard_changes import newest
from limiter.stream.charges import decode
from reconciliation.check.invariant import invariants
from schemas.limiter import limits
from sinks.streams.record_positions import SQL as POSITIONS
from tests.eventually import patient as within
from tests.integration.limiter.test_limiter_shard_leases import killed, leases_last, settled
from tests.worlds.limiter.counter_server import limiter, policy
from tests.worlds.limiter.lease_reports import Reports
from tests.worlds.limiter.shard_world import PATIENT_S, TENANTS, ShardWorld, servers, shards

if TYPE_CHECKING:
    from limiter.stream.lease_book import LeaseReport

__all__ = ["leases_last", "servers", "shards"]  # the fixtures of this module
pytestmark = pytest.mark.servers
MONTH = policy(capacity=100_000, per=["tenant"], failure_mode="open", window_ms=30 * 86_400_000)
START_US = 10**15
ROOT = Path(__file__).parents[3]


class Spent:
    """What gateways said of their leases, and of what these were charged for."""

    def __init__(self) -> None:
        self.reports: list[LeaseReport] = []
        self.blocks: list[bytes] = []

    def batch(self, offset: int = 0) -> ChargeBatch:
        blocks = [Arrived(offset + at, START_US, decode(block)) for at, block in enumerate(self.blocks)]
        return ChargeBatch(0, blocks, offset + len(blocks))


async def spend(
    shards: ShardWorld,
    folder: Path,
    name: str,
    tenant: str,
    identities: list[str],
    into: Spent,
) -> int:
    """A gateway charges these out of a lease, and is killed; gives what it charged without an identity."""
    reports, topic = Reports(), Reports()
    async with limiter(
        shards.one.url, folder, MONTH, name=name, timeout_s=PATIENT_S, reports=reports, charged=topic
    ) as gateway:
        shards.told(gateway, folder)
        before = 0
        for identity in identities:
            while True:
                reports.arrive()
                decided = gateway.check_now(tenant, "u", "/r", 2, identity)
                if decided is not None:
                    break
                before += await _grown(gateway, tenant, reports)
            assert decided.allowed
            assert decided.approximate
        into.reports += killed(gateway, reports)
        topic.arrive()
        into.blocks += topic.arrived
        return before


async def _grown(gateway: Any, tenant: str, reports: Reports) -> int:
    """So much was spent until the gateway held a lease that something may be spent of."""
    spent = 0
    async with asyncio.timeout(PATIENT_S):
        while True:
            decided = await gateway.check(tenant, "u", "/r")
            assert decided.allowed
            spent += 1
            gateway._recorder.flush()
            reports.arrive()
            bucket = next(b for b in gateway._buckets.values() if b.tenant == tenant)
            if bucket.left > 4:
                return spent


async def counted(shards: ShardWorld, folder: Path, tenant: str) -> tuple[int, int]:
    """What is charged, and reserved."""
    async with limiter(shards.one.url, folder, MONTH, name="look", timeout_s=PATIENT_S) as gateway:
        shards.told(gateway, folder)
        await gateway.check(tenant, "u", "/r", 0)
        (bucket,) = gateway._buckets.values()
        held = await gateway._store.peek(bucket)
        return held.used, held.reserved


class Refunds:
    """The rows."""

    def __init__(self, shards: ShardWorld) -> None:
        self._shards = shards

    def sums(self) -> tuple[int, int, int, set[str | None]]:
        """Rows, cost, credited, outcomes."""
        rows = self._shards.world.sql("select cost, credited, outcome from limit_lease_refund")
        return len(rows), sum(r[0] for r in rows), sum(r[1] for r in rows), {r[2] for r in rows}

    def violations(self) -> list[Any]:
        (invariant,) = (i for i in invariants() if i.id == "21")
        return self._shards.world.sql(invariant.sql)

    def usage(self) -> list[Any]:
        return self._shards.world.sql("select limit_key, refunded, refunded_cost from limit_usage_refund")


@pytest.fixture
def refunder(shards: ShardWorld) -> Any:
    found = LeaseRefunder(shards.dsns["millrace_leases"], shards.one.url)
    yield found
    found.close()


@pytest.fixture
def settler(shards: ShardWorld) -> Any:
    found = LeaseSettler(shards.dsns["millrace_leases"], shards.one.url)
    yield found
    found.close()


def test_the_later_one_is_given_back_once_its_lease_is_settled(
    shards: ShardWorld, tmp_path: Path, refunder: LeaseRefunder, settler: LeaseSettler
) -> None:
    """Not before, and once: read again, in another process too. The rest of the leases stays charged."""
    both, refunds = Spent(), Refunds(shards)
    plain = asyncio.run(spend(shards, tmp_path, "g1", "t0", ["a", "b", "c"], both))
    plain += asyncio.run(spend(shards, tmp_path, "g2", "t0", ["b", "c", "d"], both))
    found = refunder.refund(both.batch())
    assert (found.found, refunds.sums()) == (2, (2, 4, 0, {None}))
    assert refunder.give_back()[0].total() == 0
    ended = settled(settler, both.reports)
    charged = sum(each.reported + each.assumed for each in ended)
    used, reserved = asyncio.run(counted(shards, tmp_path, "t0"))
    assert reserved == 0
    assert refunder.give_back() == ({"credited": 2}, 4)
    assert asyncio.run(counted(shards, tmp_path, "t0"))[0] == used - 4
    assert (refunds.sums(), refunds.usage()) == ((2, 4, 4, {"credited"}), [(signed_hash("t0:u:/r"), 2, 4)])
    again = LeaseRefunder(shards.dsns["millrace_leases"], shards.one.url)
    try:
        assert again.positions()[0] == 0  # the first block may still meet another one
        again.refund(both.batch())
        again.refund(both.batch(100))
    finally:
        again.close()
    assert asyncio.run(counted(shards, tmp_path, "t0"))[0] == used - 4
    assert (refunds.sums(), refunds.usage()) == ((2, 4, 4, {"credited"}), [(signed_hash("t0:u:/r"), 2, 4)])
    assert refunds.violations() == []
    assert shards.world.sql("select sum(reported + assumed - refunded) from limit_lease_settlement") == [(charged - 4,)]
    assert plain >= 2


@pytest.mark.parametrize(("killed_before", "rows", "gone"), [("positions_move", 0, 0), ("refunds_done", 2, 4)])
def test_killed_on_the_way_it_is_given_back_once(
    shards: ShardWorld, tmp_path: Path, settler: LeaseSettler, killed_before: str, rows: int, gone: int
) -> None:
    """SIGKILL before the position is written, and between the store and the row: the next process reads it all again.

    It asks the store again, which has done it, and says how much it was.
    """
    both, refunds = Spent(), Refunds(shards)
    for name in ("g1", "g2"):
        asyncio.run(spend(shards, tmp_path, name, "t1", ["a", "b"], both))
    settled(settler, both.reports)
    used, _ = asyncio.run(counted(shards, tmp_path, "t1"))
    told = Dying(shards.dsns["millrace_leases"], shards.one.url, both.blocks, killed_before)
    program = "from tests.integration.limiter.test_limiter_lease_refunds import be_killed; be_killed()"
    child = [sys.executable, "-m", "tests.worlds.program", program]
    done = subprocess.run(child, input=msgspec.msgpack.encode(told), check=False, timeout=within(PATIENT_S), cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    assert asyncio.run(counted(shards, tmp_path, "t1"))[0] == used - gone
    assert refunds.sums()[::2] == (rows, 0)
    after = LeaseRefunder(shards.dsns["millrace_leases"], shards.one.url)
    try:
        after.refund(both.batch())
    finally:
        after.close()
    assert asyncio.run(counted(shards, tmp_path, "t1"))[0] == used - 4
    assert (refunds.sums(), refunds.violations()) == ((2, 4, 4, {"credited"}), [])


class Dying(msgspec.Struct):
    """What a child does until it is killed."""

    dsn: str
    redis_url: str
    blocks: list[bytes]
    killed_before: str  # the statement


def be_killed() -> None:
    """In the child: refunds what it is told of, up to a statement."""
    told = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Dying)
    refunder: Any = LeaseRefunder(told.dsn, told.redis_url)
    execute = refunder._connection.execute

    statement = (SQL | POSITIONS)[told.killed_before]

    def until_killed(query: str | bytes, *values: Any) -> Any:
        if query in (statement, statement.encode()):
            os.kill(os.getpid(), signal.SIGKILL)
        return execute(query, *values)

    refunder._connection.execute = until_killed
    spent = Spent()
    spent.blocks = told.blocks
    refunder.refund(spent.batch())


def test_what_nobody_can_know_any_more_stays_charged(
    shards: ShardWorld, tmp_path: Path, refunder: LeaseRefunder, settler: LeaseSettler
) -> None:
    """Asked long ago, when the mark at the store may be gone; and charged at a primary that was replaced since."""
    both, refunds = Spent(), Refunds(shards)
    for name in ("g1", "g2"):
        asyncio.run(spend(shards, tmp_path, name, "t2", ["a"], both))
    refunder.refund(both.batch())
    settled(settler, both.reports)
    used, _ = asyncio.run(counted(shards, tmp_path, "t2"))
    shards.world.sql("update limit_lease_refund set attempted_at = now() - interval '1 day'")
    assert refunder.give_back() == ({"unknown": 1}, 0)
    assert asyncio.run(counted(shards, tmp_path, "t2"))[0] == used
    shards.world.sql("update limit_lease_refund set attempted_at = null, outcome = null, done_at = null")
    with shards.changes() as changes:
        changes.promote("main", shards.one.address)
    assert refunder.give_back() == ({"unknown": 1}, 0)
    assert (refunds.sums(), refunds.violations()) == ((1, 2, 0, {"unknown"}), [])


def test_a_lease_that_is_never_settled_is_given_up(
    shards: ShardWorld, tmp_path: Path, refunder: LeaseRefunder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When leases are settled far beyond it, and not before."""
    both, refunds = Spent(), Refunds(shards)
    for name in ("g1", "g2"):
        asyncio.run(spend(shards, tmp_path, name, "t3", ["a"], both))
    refunder.refund(both.batch())
    monkeypatch.setattr(limits, "LIMIT_LEASE_PRUNE_S", -1)
    shards.world.sql("update limit_lease_position set settled_until = now() + interval '2 minutes' where partition > 0")
    refunder.refund(ChargeBatch(0, [], 0))
    assert refunds.sums()[3] == {None}
    everything = "update limit_lease_position set settled_until = now() + interval '2 minutes', oldest_open_end = "
    shards.world.sql(f"{everything} case when partition = 1 then now() end")  # of many that ended at once, some wait
    refunder.refund(ChargeBatch(0, [], 0))
    assert refunds.sums()[3] == {None}
    shards.world.sql(f"{everything} null")
    refunder.refund(ChargeBatch(0, [], 0))
    assert refunds.sums() == (1, 2, 0, {"unsettled"})
    assert refunds.usage() == []
    monkeypatch.setattr(limits, "LIMIT_REFUNDS_KEPT_S", -1)
    refunder.refund(ChargeBatch(0, [], 0))
    assert refunds.sums()[0] == 0


def test_refunds_outlive_their_lease_and_are_known_when_it_is_read_again(
    shards: ShardWorld, tmp_path: Path, refunder: LeaseRefunder, settler: LeaseSettler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of both are as old as rows may be; then the topic of leases is read from its beginning."""
    both, refunds = Spent(), Refunds(shards)
    for name in ("g1", "g2"):
        asyncio.run(spend(shards, tmp_path, name, "t6", ["a", "b"], both))
    settled(settler, both.reports)
    assert refunder.refund(both.batch()).found == 2
    monkeypatch.setattr(limits, "LIMIT_LEASE_PRUNE_S", -1)
    monkeypatch.setattr(limits, "LIMIT_REFUNDS_KEPT_S", -1)
    assert refunder.refund(both.batch(100)).found == 0
    assert refunds.sums() == (2, 4, 4, {"credited"})
    shards.world.sql("delete from limit_lease_settlement")
    assert {each.reason for each in settled(settler, both.reports)} == {"charged_whole"}  # nobody knows what it was
    assert shards.world.sql("select sum(refunded) from limit_lease_settlement") == [(4,)]
    assert refunds.violations() == []
    shards.world.sql("delete from limit_lease_settlement")
    refunder.refund(ChargeBatch(0, [], 0))
    assert refunds.sums()[0] == 0


def test_a_store_that_is_away_is_asked_again(
    shards: ShardWorld, tmp_path: Path, settler: LeaseSettler, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, refunds = Spent(), Refunds(shards)
    for name in ("g1", "g2"):
        asyncio.run(spend(shards, tmp_path, name, "t4", ["a"], both))
    settled(settler, both.reports)
    monkeypatch.setattr(limits, "LIMIT_LEASE_SETTLE_S", 0.2)
    impatient = LeaseRefunder(shards.dsns["millrace_leases"], shards.one.url)
    with shards.one.frozen():
        impatient.refund(both.batch())
        assert refunds.sums() == (1, 2, 0, {None})
    impatient.close()
    patient = LeaseRefunder(shards.dsns["millrace_leases"], shards.one.url)
    monkeypatch.setattr(limits, "LIMIT_LEASE_SETTLE_S", PATIENT_S)
    patient._counters._timeout_s = PATIENT_S
    patient._counters.stores["main"]._timeout_s = PATIENT_S
    try:
        patient.give_back()
    finally:
        patient.close()
    assert refunds.sums() == (1, 2, 2, {"credited"})


def test_it_is_given_back_at_the_shard_that_charged_it(
    shards: ShardWorld, tmp_path: Path, refunder: LeaseRefunder, settler: LeaseSettler
) -> None:
    """Two shards, and then a tenant moves away from where it was charged: its new place is not touched."""
    with shards.changes() as changes:
        changes.add("b", shards.two.address)
    both, refunds = Spent(), Refunds(shards)
    for tenant in TENANTS[2:6]:
        for name in ("g1", "g2"):
            asyncio.run(spend(shards, tmp_path, name, tenant, ["a"], both))
    homes = {report.shard for report in both.reports}
    assert homes == {"main", "b"}
    settled(settler, both.reports)
    before = {tenant: asyncio.run(counted(shards, tmp_path, tenant))[0] for tenant in TENANTS[2:6]}
    moved = TENANTS[2]
    with shards.connection("millrace_operator") as connection:
        there = newest(connection).layout.home_of(moved)
    with shards.changes() as changes:
        changes.pin(moved, "b" if there == "main" else "main")
    assert asyncio.run(counted(shards, tmp_path, moved))[0] == before[moved]  # carried over
    refunder.refund(both.batch())
    assert refunds.sums() == (4, 8, 8, {"credited"})
    after = {tenant: asyncio.run(counted(shards, tmp_path, tenant))[0] for tenant in TENANTS[2:6]}
    assert after == {tenant: used - 2 * (tenant != moved) for tenant, used in before.items()}


def test_a_store_that_lost_everything_is_not_told_what_was_given_back(
    shards: ShardWorld, tmp_path: Path, refunder: LeaseRefunder, settler: LeaseSettler
) -> None:
    both = Spent()
    for name in ("g1", "g2"):
        asyncio.run(spend(shards, tmp_path, name, "t5", ["a", "b", "c"], both))
    ended = settled(settler, both.reports)
    refunder.refund(both.batch())
    with shards.changes() as changes:
        assert changes.restore("main") == (1, 0)
        with redis.Redis.from_url(shards.one.url) as connection:
            connection.flushall()
        assert changes.restore("main") == (1, sum(each.reported for each in ended) - 6)
