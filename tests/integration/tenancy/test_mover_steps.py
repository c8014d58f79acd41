"""Steps of the mover, and what may happen between any two: no row is lost, no fence outlives its move, no tenant waits for another."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest
from msgspec import structs

from dataflows.tenancy.mover import endings, feeding, verifying
from dataflows.tenancy.mover.moves import Moves
from dataflows.tenancy.partition import SQL as OWNER
from ingress.http.store import Store
from ingress.tenancy.resources import Resources
from ingress.tenancy.stores import TenantStores
from ingress.tenancy.tenants import Tenants
from schemas import errors
from schemas.tenancy import limits
from sinks.certificates import CertificateKeys
from sinks.postgres import migrate
from sinks.tenancy import databases
from sinks.tenancy.contexts import Contexts
from sinks.tenancy.shredded import Shredded
from tests.eventually import eventually
from tests.worlds.mover_world import POOL, world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.servers import World
    from tests.worlds.mover_world import MoverWorld

__all__ = ["world"]  # the fixture of this module
pytestmark = [pytest.mark.servers]
EU = "pl_pool_eu_1"
SECOND_US = 1_000_000
ROWS = "select count(*) from tenancy_pool.resource where tenant_id = %s"
MOVE = "select state from tenant_migration where tenant_id = %s"
TENANT = "select state from tenant where tenant_id = %s"
PLACED = "select placement_id, generation from tenant where tenant_id = %s"
_MIGRATION = dict(migrate.files())["0236_keys_of_deleted.sql"]
UNCERTIFIED = "select count(*) from tenant_key where tenant_id = %s and certificate_id is null"
EXPORT = "select state from tenant_export where tenant_id = %s"


class Clock:
    """The database's, as a test goes on with it."""

    def __init__(self) -> None:
        self.us = 1_000 * SECOND_US

    def now_us(self) -> int:
        return self.us


def slowly(monkeypatch: pytest.MonkeyPatch, clock: Clock, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Comparing all rows takes longer than a fence may last."""
    compare = verifying.compare

    def compared(*sides: object) -> object:
        found = compare(*sides)  # type: ignore[arg-type] # as it was called
        clock.us += (limits.MOVE_FENCE_S + 10) * SECOND_US
        meanwhile()
        return found

    monkeypatch.setattr(verifying, "compare", compared)


@pytest.mark.parametrize(
    ("state", "placed", "closing", "ends"),
    [
        ("soaking", POOL, True, "completed"),
        ("aborting", EU, False, "aborted"),
        ("rolling_back", EU, False, "rolled_back"),
    ],
)
def test_a_move_between_the_pools_of_two_regions_ends_with_every_row(
    world: MoverWorld, state: str, placed: str, closing: bool, ends: str
) -> None:
    """Both are one store: what is emptied of one is gone from the other."""
    tenant = world.tenant(f"tn_{state}", 5, placement=EU)
    world.tenant(f"tn_beside_{state}", 0)  # the other pool is there
    world.superuser.execute("update tenant set placement_id = %s where tenant_id = %s", (placed, tenant))
    world.move(tenant, state, EU, POOL, closing=closing)
    Moves(world.places, Clock().now_us).further()
    assert world.one(MOVE, tenant) == (ends,)
    assert world.one(ROWS, tenant) == (5,)


def test_a_fence_begins_when_all_rows_are_compared_and_is_brought_to_its_end_at_once(
    world: MoverWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comparing took longer than a fence may last, and the tenant wrote meanwhile."""
    clock, tenant = Clock(), world.tenant("tn_slow", 5)
    target = world.own_store(tenant, "pl_slow")
    world.move(tenant, "planned", POOL, target)

    def writes() -> None:
        for n in range(3):
            world.written(tenant, f"rs_{n:03}", 2, further=target, at=clock.us)

    slowly(monkeypatch, clock, writes)
    mover, seen = Moves(world.places, clock.now_us), ["planned"]
    while seen[-1] not in ("committed", "aborting", "fencing"):
        mover.further()
        seen.append(world.one(MOVE, tenant)[0])
    assert seen[-2:] == ["verifying", "committed"]
    assert world.one(PLACED, tenant) == (target, 2)
    versions = "select array_agg(version order by resource_id) from pl_slow.resource"
    assert world.one(versions) == ([2, 2, 2, 1, 1],)

    mover.further()
    world.superuser.execute("update tenant_migration set state = 'rolling_back' where tenant_id = %s", (tenant,))
    monkeypatch.undo()
    slowly(monkeypatch, clock)
    mover.further()
    assert world.one(PLACED, tenant) == (POOL, 3)
    mover.further()
    assert (world.one(MOVE, tenant), world.one(ROWS, tenant)) == (("rolled_back",), (5,))


@pytest.mark.parametrize("amiss", ["lost", "another"])
def test_what_differs_only_since_all_rows_were_compared_commits_nothing(
    world: MoverWorld, monkeypatch: pytest.MonkeyPatch, amiss: str
) -> None:
    """An image that never came, or says something else: it is found under the fence, and the source serves on."""
    clock, tenant = Clock(), world.tenant(f"tn_{amiss}", 3)
    target = world.own_store(tenant, f"pl_{amiss}")
    world.move(tenant, "planned", POOL, target)

    def writes() -> None:
        world.written(tenant, "rs_001", 2, further=target if amiss == "another" else None, at=clock.us)
        world.superuser.execute("update resource_feed set payload = 'another' where tenant_id = %s", (tenant,))

    slowly(monkeypatch, clock, writes)
    mover = Moves(world.places, clock.now_us)
    while world.one(MOVE, tenant)[0] not in ("aborted", "committed", "soaking"):
        mover.further()
        clock.us += 2 * limits.MOVE_FENCE_S * SECOND_US
    assert world.one(MOVE, tenant) == ("aborted",)
    assert world.one(PLACED, tenant) == (POOL, 2)
    assert world.one(ROWS, tenant) == (3,)


def test_a_fence_that_lasted_too_long_is_given_up(world: MoverWorld) -> None:
    clock, tenant = Clock(), world.tenant("tn_late", 2)
    target = world.own_store(tenant, "pl_late")
    world.move(tenant, "fencing", POOL, target, fence_until=clock.us - 1)
    mover = Moves(world.places, clock.now_us)
    mover.further()
    assert world.one("select state, fenced from tenant_migration where tenant_id = %s", tenant) == ("aborting", False)
    assert world.one(PLACED, tenant) == (POOL, 2)
    mover.further()
    assert (world.one(MOVE, tenant), world.one(ROWS, tenant)) == (("aborted",), (2,))


@pytest.mark.parametrize("state", ["rolling_back", "committed"])
def test_a_move_whose_source_is_gone_for_good_stays_where_it_serves(world: MoverWorld, state: str) -> None:
    """Somebody dropped its database: whoever waits for it waits for ever."""
    tenant = world.tenant(f"tn_gone_{state}", 2)
    source = world.own_store(tenant, f"pl_gone_{state}", "dedicated")
    world.move(tenant, state, source, POOL)
    world.written(tenant, "rs_000", 2, further=source)
    mover = Moves(world.places, Clock().now_us)
    mover.further()
    assert world.one("select state, fenced from tenant_migration where tenant_id = %s", tenant) == ("soaking", False)
    world.superuser.execute("update tenant_migration set closing = true where tenant_id = %s", (tenant,))
    mover.further()
    assert (world.one(MOVE, tenant), world.one(ROWS, tenant)) == (("completed",), (2,))
    assert world.one("select count(*) from resource_feed where tenant_id = %s", tenant) == (0,)


def test_a_tenant_whose_database_was_never_made_leaves(world: MoverWorld, tmp_path: Path) -> None:
    """It was offboarded while it was waited for."""
    tenant, certificates = world.tenant("tn_never", 0, state="offboarding"), CertificateKeys(tmp_path)
    placement = world.own_store(tenant, "pl_never", "dedicated")
    world.superuser.execute("update placement set state = 'provisioning' where placement_id = %s", (placement,))
    world.superuser.execute("update tenant set placement_id = %s where tenant_id = %s", (placement, tenant))
    certificates.ensure()
    world.export(tenant)
    world.exported()
    assert world.one(TENANT, tenant) == ("exported",)
    world.superuser.execute("update tenant set state = 'deleting' where tenant_id = %s", (tenant,))
    shredded_at = "update tenant_key set state = 'destroyed', wrapped = null, destroyed_at = 7 where tenant_id = %s"
    world.superuser.execute(shredded_at, (tenant,))
    endings.delete(world.places, certificates, Shredded(tmp_path), 9)
    assert world.one(TENANT, tenant) == ("deleted",)
    assert world.one(UNCERTIFIED, tenant) == (0,)  # nothing waits for a certificate
    assert world.one("select destroyed_at from tenant_key where tenant_id = %s", tenant) == (7,)


def test_keys_of_who_was_deleted_before_wait_for_no_certificate(world: MoverWorld) -> None:
    deleted, shredded = world.tenant("tn_before", 0, state="deleted"), world.tenant("tn_shredded", 0)
    world.superuser.execute("update tenant set certificate_id = 'ce_1' where tenant_id = %s", (deleted,))
    gone = "update tenant_key set state = 'destroyed', wrapped = null, destroyed_at = 1 where tenant_id = any(%s)"
    world.superuser.execute(gone, ([deleted, shredded],))
    world.superuser.execute(_MIGRATION.encode())
    assert (world.one(UNCERTIFIED, deleted), world.one(UNCERTIFIED, shredded)) == ((0,), (1,))


def test_who_never_stops_writing_is_copied_once_what_was_written_before_is_in_the_source(world: MoverWorld) -> None:
    """The source is fed, as a database of its own is: something waits for it at every look."""
    tenant = world.tenant("tn_busy", 3)
    world.move(tenant, "planned", POOL, world.own_store(tenant, "pl_busy"))
    world.written(tenant, "rs_000", 2, further=POOL)
    mover, copied = Moves(world.places, Clock().now_us), "select rows_copied from tenant_migration where tenant_id = %s"
    for _ in range(3):
        mover.further()
    assert (world.one(MOVE, tenant), world.one(copied, tenant)) == (("copying",), (0,))
    feeding.bring_to(world.places, POOL)
    world.written(tenant, "rs_001", 2, further=POOL)
    mover.further()
    assert world.one(copied, tenant) == (3,)


SLOWLY = """
create function slowly() returns trigger language plpgsql as 'begin perform pg_sleep(0.1); return old; end';
create trigger slowly before delete on resource_head for each row execute function slowly()
"""


def test_a_tenant_of_many_resources_is_deleted_however_long_that_takes(world: MoverWorld, tmp_path: Path) -> None:
    """Their heads go in one statement, which may last longer than those of moves."""
    tenant, certificates = world.tenant("tn_many", 2, state="deleting"), CertificateKeys(tmp_path)
    certificates.ensure()
    world.superuser.execute(SLOWLY)
    world.control.execute("set statement_timeout = 150")
    endings.delete(world.places, certificates, Shredded(tmp_path), 1)
    world.control.execute("reset statement_timeout")
    world.superuser.execute("drop function slowly cascade")
    assert world.one(TENANT, tenant) == ("deleted",)
    assert world.one("select count(*) from resource_head where tenant_id = %s", tenant) == (0,)
    assert world.one(UNCERTIFIED, tenant) == (0,)
    assert tenant in Shredded(tmp_path).all()


def test_who_brings_more_tenants_than_a_store_may_hold_fails(world: MoverWorld) -> None:
    """Partitions of one round are decided apart: two of them may have taken the last place."""
    world.tenant("tn_last", 0)
    (held,) = world.one("select tenants from tenant_store where store = 'tenancy_pool'")
    fits = OWNER["stores_fit"].encode()
    world.superuser.execute(fits, (["tenancy_pool"], [held]))
    with pytest.raises(psycopg.errors.DivisionByZero):
        world.superuser.execute(fits, (["tenancy_pool"], [held - 1]))


POLICY = "update tenant set state = %s, suspension = %s, policy_version = policy_version + 1 where tenant_id = %s"


@asynccontextmanager
async def _reading(
    world: MoverWorld, dsn: str, contexts: Contexts | None = None
) -> AsyncIterator[tuple[Tenants, TenantStores, Resources]]:
    """What an ingress reads with."""
    store = Store(dsn)
    await store.open()
    tenants = Tenants(store, store, world.root_keys, cast("Any", None))
    stores = TenantStores(store, dsn, contexts or world.contexts)
    reads = Resources(store, stores, tenants, cast("Any", None))
    try:
        yield tenants, stores, reads
    finally:
        await reads.close()
        await stores.close()
        await store.close()


def test_what_an_ingress_decided_before_a_policy_changed_is_decided_again(world: MoverWorld, stack: World) -> None:
    """What it knew allows all of it: a row, one that waits in the feed, nothing under that name, and a list."""
    tenant = world.tenant("tn_decided", 2)
    world.written(tenant, "rs_001", 2, further=POOL)
    dsn = stack.addresses.postgres_dsns["millrace_ingress"]

    async def asked() -> None:
        async with _reading(world, dsn) as (tenants, stores, reads):
            known = await tenants.get(tenant)
            for state, suspension, allows in (("active", None, True), ("suspended", "blocked", False)):
                world.superuser.execute(POLICY, (state, suspension, tenant))
                with pytest.raises(psycopg.DatabaseError, match="of an older policy"):
                    await stores.rows(known.tenant, ["rs_000"])
                for read, wanted in (
                    (reads.get(known, "rs_000"), [1]),
                    (reads.get(known, "rs_001"), [2]),
                    (reads.page(known, 10, None), [1, 2]),
                ):
                    if not allows:
                        with pytest.raises(errors.TenantNotActive):
                            await read
                        continue
                    found = await read
                    payloads = [json.loads(bytes(one["payload"])) for one in found.get("data", [found])]
                    assert sorted(payload["version"] for payload in payloads) == wanted
                with pytest.raises(errors.NotFound if allows else errors.TenantNotActive):
                    await reads.get(known, "rs_none")
                async with _reading(world, dsn, Contexts(None)) as (_, _, forging):
                    with pytest.raises(errors.Unavailable if allows else errors.TenantNotActive):
                        await forging.get(await tenants.get(tenant, fresh=True), "rs_000")

    asyncio.run(asked())
    assert world.one("select policy_version from tenancy.gate where tenant_id = %s", tenant) == (3,)


_WAITING = """select from pg_locks l join pg_database d on d.oid = l.database
    where d.datname = current_database() and not l.granted"""


def _waits(slow: psycopg.Connection[Any]) -> int:
    """How many wait for what this connection holds."""
    return slow.execute(_WAITING).rowcount


def test_a_database_of_its_own_is_not_read_by_an_older_policy_however_long_it_takes(
    world: MoverWorld, stack: World
) -> None:
    """Its head was found under the policy of before; what the database gives then may be of after it."""
    tenant = world.tenant("tn_own_policy", 2)
    world.own_store(tenant, "pl_own_policy", "dedicated")
    world.superuser.execute("update tenant set placement_id = 'pl_own_policy' where tenant_id = %s", (tenant,))
    own, pool = world.places.serving(tenant), world.places.serving(world.tenant("tn_beside", 0))
    world.places.make(own)
    world.places.apply(own, world.places.rows_after(structs.replace(pool, tenant_id=tenant), "", 9))
    dsn = stack.addresses.postgres_dsns["millrace_ingress"]
    superuser = databases.dsn_of(stack.addresses.postgres_superuser_dsn, own.placement_id)

    async def asked() -> None:
        async with _reading(world, dsn) as (tenants, _, reads):
            known = await tenants.get(tenant)
            for state, suspension in (("active", None), ("suspended", "blocked")):
                with psycopg.connect(superuser) as slow:
                    slow.execute("lock table tenancy_pool.resource in access exclusive mode")
                    read = asyncio.create_task(reads.get(known, "rs_000"))
                    await asyncio.to_thread(eventually, partial(_waits, slow))
                    world.superuser.execute(POLICY, (state, suspension, tenant))
                if state == "active":
                    assert json.loads(bytes((await read)["payload"])) == {"version": 1}
                    continue
                with pytest.raises(errors.TenantNotActive):
                    await read

    asyncio.run(asked())


def test_a_page_proves_its_tenant_once(world: MoverWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each proof asks the clock of the database that judges it: once a page, not once a row."""
    place = world.places.serving(world.tenant("tn_paged", 5))
    rows, proved, context = world.places.rows_after(place, "", 9), [], world.places.context
    monkeypatch.setattr(world.places, "context", lambda of: proved.append(of.tenant_id) or context(of))
    world.places.apply(place, rows)
    assert (len(rows), proved) == (5, ["tn_paged"])
