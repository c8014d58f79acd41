"""The shard map on a real Postgres and real stores: what operators change, gateways follow, and no quota is had twice."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import redis

from dataflows.limiter.partition import LimiterPartition
from dataflows.owner.service import Committed
from limiter.policy.shard_map import ONE_SHARD, ShardsRefused, encoded
from limiter.store.shard_changes import ShardChanges, newest
from limiter.store.shard_health import rows
from reconciliation.audit.log import entries
from schemas.limiter import limits
from schemas.limiter.operations import OPERATIONS
from schemas.limiter.topics import PARTITIONS
from schemas.records import Rejection
from schemas.topics import partition_for
from sinks.postgres.owner_connection import connect
from tests.eventually import eventually
from tests.integration.operator_shell import Operator
from tests.worlds.limiter.counter_server import CounterServer, answer_of_store, limiter, policy
from tests.worlds.limiter.shard_world import PATIENT_S, TENANTS, ShardWorld, servers, shards
from tests.worlds.payments import payment_cases as cases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dataflows.owner.batch import Statement
    from limiter import Limiter
    from sinks.postgres.owner_connection import OwnerConnection

__all__ = ["servers", "shards"]  # the fixtures of this module
pytestmark = pytest.mark.servers
CAPACITY = 10
EXACT = policy(capacity=CAPACITY, consistency="exact", failure_mode="closed", per=["tenant"])


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No store is away here: a change of the map gives none up because this machine is slow."""
    monkeypatch.setattr(limits, "LIMIT_SHARD_CALL_TIMEOUT_S", PATIENT_S)


async def allowed(gateway: Limiter, tenant: str, count: int) -> int:
    decided = [await gateway.check(tenant, f"u{n}", "/r") for n in range(count)]
    assert not any(d.degraded for d in decided)
    return sum(d.allowed for d in decided)


def test_tenants_that_move_take_their_counters_along_and_back(shards: ShardWorld, tmp_path: Path) -> None:
    """Added, pinned, unpinned: nobody has a quota twice, and a gateway of the old map is refused where it matters."""

    async def test() -> None:
        async with (
            limiter(shards.one.url, tmp_path, EXACT, timeout_s=PATIENT_S) as late,
            limiter(shards.one.url, tmp_path, EXACT, name="g2", timeout_s=PATIENT_S) as gateway,
        ):
            assert [await allowed(gateway, tenant, 4) for tenant in TENANTS] == [4] * len(TENANTS)
            with shards.changes() as changes:
                found = await asyncio.to_thread(changes.add, "b", shards.two.address)
            moved = {tenant for tenant in TENANTS if found.layout.home_of(tenant) == "b"}
            assert 0 < len(moved) < len(TENANTS)
            refused = [await late.check(tenant, "u", "/r") for tenant in TENANTS]
            assert [(d.allowed, d.degraded) for d in refused] == [(False, True)] * len(TENANTS)
            assert "map says 0" in str(late._store.unfit)
            for one in (gateway, late):
                shards.told(one, tmp_path)
            assert late._store.unfit is None
            assert [await allowed(gateway, tenant, 3) for tenant in TENANTS] == [3] * len(TENANTS)
            assert [await allowed(late, tenant, 1) for tenant in TENANTS] == [1] * len(TENANTS)
            tenant = min(moved)
            with shards.changes() as changes:
                await asyncio.to_thread(changes.pin, tenant, "main")
            assert (await gateway.check(tenant, "u", "/r")).degraded  # "b" is fenced, before the gateway has the map
            for one in (gateway, late):
                shards.told(one, tmp_path)
            assert await allowed(late, tenant, 1) == 1
            with shards.changes() as changes:
                await asyncio.to_thread(changes.pin, tenant, None)
            for one in (gateway, late):
                shards.told(one, tmp_path)
            assert await allowed(gateway, tenant, 20) == 1
            assert [await allowed(late, other, 20) for other in TENANTS if other != tenant] == [2] * (len(TENANTS) - 1)

    asyncio.run(test())


def test_a_moved_tenant_keeps_what_its_leases_spent(
    shards: ShardWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two gateways hold leases at the shard that loses the tenant: what one says it spent counts, and all of the other's."""
    monkeypatch.setattr(limits, "LIMIT_LEASE_MS", 60_000)  # longer than a slow machine takes here
    leased = policy(capacity=100_000, per=["tenant"])

    async def test() -> None:
        async with (
            limiter(shards.one.url, tmp_path, leased, timeout_s=PATIENT_S) as gone,
            limiter(shards.one.url, tmp_path, leased, name="g2", timeout_s=PATIENT_S) as gateway,
        ):
            with shards.changes() as changes:
                found = await asyncio.to_thread(changes.add, "b", shards.two.address)
            tenant = next(t for t in TENANTS if found.layout.home_of(t) == "main")
            spent = 0
            for one in (gone, gateway):
                shards.told(one, tmp_path)
                while not any(bucket.left > 2 for bucket in one._buckets.values()):
                    assert await allowed(one, tenant, 1) == 1
                    spent += 1
                spent += await allowed(one, tenant, 2)
                await one.maintain()
            (kept,) = gateway._buckets.values()
            assert kept.left > 0
            before = await gateway._store.peek(kept)
            counts = before.used + before.reserved - kept.left
            with shards.changes() as changes:
                await asyncio.to_thread(changes.pin, tenant, "b")
            shards.told(gateway, tmp_path)
            await gateway.maintain()  # it holds a lease of a shard that was fenced: it is told of at once
            counted = await gateway._store.peek(kept)
            assert (counted.used, counted.reserved) == (counts, 0)
            assert spent < counts

    asyncio.run(test())


def test_a_policy_that_counts_over_tenants_keeps_the_map_at_one_shard(shards: ShardWorld, tmp_path: Path) -> None:
    over_tenants = policy("pl_over", per=["user"], consistency="exact", failure_mode="closed")
    shards.in_force(over_tenants)
    with shards.changes() as changes, pytest.raises(ShardsRefused, match=r"pl_over.*`per` names the tenant"):
        changes.add("b", shards.two.address)
    with shards.connection("millrace_operator") as connection:
        assert newest(connection) == ONE_SHARD

    async def published_meanwhile() -> None:
        async with limiter(shards.one.url, tmp_path, over_tenants, timeout_s=PATIENT_S) as gateway:
            gateway._store.use(ONE_SHARD.with_shard("b", shards.two.address, ()))
            decided = await gateway.check("t", "u", "/r")
            assert (decided.allowed, decided.degraded) == (False, True)

    asyncio.run(published_meanwhile())


@contextmanager
def owning(shards: ShardWorld) -> Iterator[OwnerConnection]:
    with closing(connect(shards.dsns["millrace_limiter_owner"], "owner")) as owner:
        owner.execute("set transaction_timeout = 0")  # however slow we are here
        yield owner


def publication(connection: OwnerConnection, key: str) -> tuple[Committed | Rejection, list[Statement]]:
    """One of a policy that counts over tenants, decided as its owner does, in the transaction that is open."""
    payload, wrong = OPERATIONS["publish_policy"].normalize(
        {
            "scope": {"tenant": "*", "user": "*", "route": "*"},
            "per": ["user"],
            "algorithm": "fixed_window",
            "capacity": 10,
            "window_ms": 60_000,
        }
    )
    assert not wrong
    command = cases.command("publish_policy", payload, key=key, scope="m_ops", aggregate_key=f"pl_{key}")
    place = LimiterPartition(connection, partition_for(command.aggregate_key, PARTITIONS))
    found = [connection.execute(sql, values) for sql, values in place.reads([command.aggregate_key], [command])]
    workspace = place.begin([rows.fetchall() for rows in found])
    return workspace.decide(command, 0, 1), workspace.writes()


def test_a_policy_over_tenants_that_is_under_way_wins_against_a_further_shard(
    shards: ShardWorld, tmp_path: Path
) -> None:
    """The shards are fenced by then: they go on under their new epochs, and the map has one of them, as before."""
    with owning(shards) as owner, ThreadPoolExecutor(1) as operator, shards.changes() as changes:
        with owner.transaction():
            decided, writes = publication(owner, "first")
            assert isinstance(decided, Committed)
            adding = operator.submit(changes.add, "b", shards.two.address)
            waits = "select 1 from pg_locks where locktype = 'advisory' and not granted and database ="
            waits += " (select oid from pg_database where datname = current_database())"
            eventually(lambda: shards.world.sql(waits) or adding.done(), PATIENT_S, what="the operator waits")
            assert not adding.done()
            for sql, values in writes:
                owner.execute(sql, values)
        with pytest.raises(ShardsRefused, match=r"pl_first.*`per` names the tenant"):
            adding.result(PATIENT_S)
    with shards.connection("millrace_operator") as connection:
        found = newest(connection)
    assert [(shard.name, shard.epoch == shard.reserved) for shard in found.shards] == [("main", True)]

    async def go_on() -> None:
        async with limiter(shards.one.url, tmp_path, EXACT, timeout_s=PATIENT_S) as gateway:
            shards.told(gateway, tmp_path)
            assert await allowed(gateway, "t", 3) == 3

    asyncio.run(go_on())


def test_where_there_are_several_shards_no_policy_over_tenants_is_published(shards: ShardWorld) -> None:
    with shards.changes() as changes:
        changes.add("b", shards.two.address)
    with owning(shards) as owner, owner.transaction():
        decided, writes = publication(owner, "late")
    assert isinstance(decided, Rejection)
    assert (decided.code, decided.extra["shards"], writes) == ("state_conflict", 2, [])


def test_a_store_that_lost_everything_answers_nobody_until_it_is_restored(shards: ShardWorld, tmp_path: Path) -> None:
    """On a fresh stack too: its epoch goes with the counters, and is not made anew by a start."""

    async def test() -> None:
        with shards.changes() as changes:
            assert changes.begin().shard("main").epoch == 1
            assert changes.begin() == newest(changes._connection)  # every start says so
        async with limiter(shards.one.url, tmp_path, EXACT, timeout_s=PATIENT_S) as gateway:
            shards.told(gateway, tmp_path)
            assert await allowed(gateway, "t0", CAPACITY + 1) == CAPACITY
            store: Any = gateway._store
            assert store.unfit is None
            with redis.Redis.from_url(shards.one.url) as connection:
                connection.flushall()
            decided = await gateway.check("t0", "u", "/r")
            assert (decided.allowed, decided.degraded) == (False, True)
            assert store.unfit == "shard main lost its counters: run 'millrace limiter shards restore main'"
            with shards.changes() as changes:
                changes.begin()
                assert "lost its counters" in rows(newest(changes._connection), shards.one.url)[0]["health"]
                await asyncio.to_thread(changes.restore, "main")  # an operator's shell: a loop of its own
                assert newest(changes._connection).shard("main").state == "live"
            assert (await gateway.check("t0", "u", "/r")).degraded  # by the old map
            shards.told(gateway, tmp_path)
            assert not (await answer_of_store(gateway, "u", 1)).degraded
            assert store.unfit is None

    asyncio.run(test())


def test_of_two_operators_at_once_one_is_refused_and_no_epoch_goes_back(shards: ShardWorld) -> None:
    with shards.connection("millrace_operator") as one, shards.connection("millrace_operator") as other:
        first, second = (ShardChanges(connection, shards.one.url, "ann") for connection in (one, other))
        taken = first._written(ONE_SHARD.with_reserved({"main": 1}))
        with pytest.raises(ShardsRefused, match="Somebody else"):
            second._written(ONE_SHARD.with_reserved({"main": 1}))
        first._written(taken.with_fences(("main",)))
        back = encoded(ONE_SHARD).replace('"version":0', '"version":3')
        with pytest.raises(psycopg.errors.CheckViolation):
            one.execute("insert into limiter_shard_map values (3, %s, 'ann')", (back,))
        for statement in ("update limiter_shard_map set body = body", "delete from limiter_shard_map"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                one.execute(statement)
    for role in ("millrace_ingress", "millrace_owner", "millrace_limiter_owner", "millrace_worker", "millrace_reader"):
        with shards.connection(role) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("insert into limiter_shard_map values (3, %s, 'ann')", (back,))


def test_a_server_that_must_not_be_a_shard_is_refused(shards: ShardWorld) -> None:
    with redis.Redis.from_url(shards.two.url) as two, shards.changes() as changes:
        two.set("rl:epoch", 7)
        with pytest.raises(ShardsRefused, match=r"was a shard before \(it is at epoch 7\)"):
            changes.add("b", shards.two.address)
        two.flushall()
        two.config_set("maxmemory-policy", "volatile-lru")
        try:
            with pytest.raises(ShardsRefused, match="set maxmemory-policy noeviction"):
                changes.promote("main", shards.two.address)
        finally:
            two.config_set("maxmemory-policy", "noeviction")
        with pytest.raises(ShardsRefused, match="does not answer"):
            changes.add("b", "redis://127.0.0.1:1/0")
    with shards.connection("millrace_operator") as connection:
        assert newest(connection) == ONE_SHARD


def the_failover_of_the_runbook(shards: ShardWorld) -> None:
    """Its block, line by line; the new primary is the one that is there."""
    text = (Path(__file__).parents[3] / "limiter" / "operating.md").read_text()
    (block,) = re.findall(r"^```bash\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    said = [shlex.split(line, comments=True) for line in block.splitlines()]
    assert [words[1:3] for words in said] == [["limiter", "shards"]] * 3 + [["audit", "list"]]
    for _, *words in said:
        here = [shards.one.address if word == "redis://10.0.0.6:6379" else word for word in words]
        done = Operator.of(shards.stack.settings).run(*here, settings=shards.settings)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "limiter.shards.promote" in done.stdout


def test_an_operator_at_a_shell(shards: ShardWorld) -> None:
    """Shows, adds, pins, fails over and is refused, each in the audit log under a name; no secret is shown or kept."""
    assert shards.cli("add", "b", shards.two.address)[0] == 0
    assert shards.cli("pin", "t1", "b") == (0, "t1 is on b\n")
    status, said = shards.cli("promote", "main", "--to", f"redis://:hunter2@{shards.one.address[8:]}")
    assert (status, "leave them out" in said) == (1, True)
    the_failover_of_the_runbook(shards)
    status, said = shards.cli("pin", "t1", "nowhere")
    assert (status, "there are: main, b" in said) == (1, True)
    status, shown = shards.cli("--json")
    found = json.loads(shown)
    assert (status, found["pins"]) == (0, {"t1": "b"})
    assert {row["shard"]: row["health"] for row in found["shards"]} == dict.fromkeys(
        ("main", "b"), "ok, without a replica"
    )
    with redis.Redis.from_url(shards.one.url) as one:
        epoch = int(one.get("rl:epoch"))  # type: ignore[arg-type]  # redis-py's own types
    assert [row["epoch"] for row in found["shards"] if row["shard"] == "main"] == [epoch]
    assert "share" in shards.cli()[1]
    with shards.connection("millrace_operator") as connection:
        rows = entries(connection, limit=100)
    done = [(row["action"], row["outcome"]) for row in rows if row["outcome"] != "begun"]
    assert done == [
        ("limiter.shards.add", "done"),
        ("limiter.shards.pin", "done"),
        ("limiter.shards.promote", "refused"),
        ("limiter.shards", "done"),
        ("limiter.shards.promote", "done"),
        ("limiter.shards", "done"),
        ("limiter.shards.pin", "refused"),
        ("limiter.shards", "done"),
        ("limiter.shards", "done"),
    ]
    assert "hunter2" not in str(rows)
    for words in (["--help"], ["promote", "--help"], ["add", "--help"]):
        assert shards.cli(*words)[0] == 0


def test_a_promotion_is_whole_when_the_new_primary_had_everything(shards: ShardWorld, tmp_path: Path) -> None:
    """Not because some other server follows the old one: what leases spent is restored then."""
    one, two = shards.one, shards.two
    follower = CounterServer(tmp_path, of=one)
    follower.follow(one)

    def whole(changes: ShardChanges, server: CounterServer) -> bool | None:
        done = changes.promote("main", server.address)
        assert (done.restored is None) is bool(done.is_whole)
        return done.is_whole

    try:
        with (
            redis.Redis.from_url(one.url) as first,
            redis.Redis.from_url(two.url) as second,
            shards.changes() as changes,
        ):
            changes.begin()
            assert whole(changes, one)
            first.flushall()
            assert whole(changes, one) is False  # in place, of a store that lost its epoch with everything
            two.follow(one)
            second.replicaof("127.0.0.1", "1")
            first.set("taken", "meanwhile")
            assert whole(changes, two) is False
            follower.follow(two)
            assert whole(changes, one) is False  # it follows nobody
            follower.follow(one)
            assert whole(changes, follower)
    finally:
        follower.close()


def test_a_store_that_lost_its_data_answers_again_after_a_promotion_in_place(
    shards: ShardWorld, tmp_path: Path
) -> None:
    async def test() -> None:
        async with limiter(shards.one.url, tmp_path, EXACT, timeout_s=PATIENT_S) as gateway:
            with shards.changes() as changes:
                first = await asyncio.to_thread(changes.promote, "main", shards.one.address)
            assert first.shard_map.shard("main").epoch == 1
            shards.told(gateway, tmp_path)
            assert await allowed(gateway, "t1", 3) == 3
            with redis.Redis.from_url(shards.one.url) as connection:
                connection.flushall()
            assert (await gateway.check("t1", "u", "/r")).degraded
            with shards.changes() as changes:
                await asyncio.to_thread(changes.promote, "main", shards.one.address)
            shards.told(gateway, tmp_path)
            assert not (await answer_of_store(gateway, "u", 0)).degraded

    asyncio.run(test())
