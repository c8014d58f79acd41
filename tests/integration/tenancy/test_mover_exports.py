"""Exports: what was committed at one moment, whatever is written meanwhile, and none that waits holds up another.

And their end: keys are certified as destroyed when nobody may hold them any more.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from dataflows.tenancy.mover.certifying import SQL as MOVER
from dataflows.tenancy.mover.certifying import Certifying
from schemas.tenancy import limits
from sinks.certificates import CertificateKeys
from sinks.tenancy.key_lease import KeyLease
from sinks.tenancy.shredded import Shredded
from tests.worlds.mover_world import world

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.servers import World
    from tests.worlds.mover_world import MoverWorld

__all__ = ["world"]  # the fixture of this module
pytestmark = [pytest.mark.servers]
TENANT = "select state from tenant where tenant_id = %s"
EXPORT = "select state from tenant_export where tenant_id = %s"
SECOND_US = 1_000_000
RUNNING = "select count(*) from tenant_export where state = 'running' and tenant_id = any (%s)"


def before_page(world: MoverWorld, monkeypatch: pytest.MonkeyPatch, page: int, meanwhile: Callable[[], object]) -> None:
    """Pages are of one resource; before the rows of one of them are read, something is committed."""
    monkeypatch.setattr(limits, "EXPORT_PAGE_ROWS", 1)
    read, pages = world.places.rows, iter(range(10_000))

    def rows(*asked: Any) -> Any:
        if next(pages) == page:
            meanwhile()
        return read(*asked)

    monkeypatch.setattr(world.places, "rows", rows)


def test_what_is_acknowledged_before_a_tenant_leaves_is_in_the_export_that_lets_it_be_deleted(
    world: MoverWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page is written when its resource is replaced, and the tenant offboarded."""
    tenant = world.tenant("tn_leaves", 3)
    world.export(tenant)

    def leaves() -> None:
        world.written(tenant, "rs_000", 2)
        world.written(tenant, "rs_new", 1)
        world.superuser.execute("update tenant set state = 'offboarding', version = 2 where tenant_id = %s", (tenant,))

    before_page(world, monkeypatch, 2, leaves)
    world.exported()
    assert (world.one(TENANT, tenant), world.one(EXPORT, tenant)) == (("offboarding",), ("running",))
    world.exported()
    assert (world.one(TENANT, tenant), world.one(EXPORT, tenant)) == (("exported",), ("ready",))
    assert [(line["resource_id"], line["version"]) for line in world.lines(tenant)] == [
        *(("rs_000", 2), ("rs_001", 1), ("rs_002", 1), ("rs_new", 1))
    ]
    assert world.one("select resources from tenant_export where tenant_id = %s", tenant) == (4,)


def test_a_line_has_the_payload_of_its_version_and_a_tenant_that_writes_is_exported_all_the_same(
    world: MoverWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = world.tenant("tn_busy", 3)
    world.written_before(tenant, "rs_002", 1)
    world.export(tenant)

    def writes() -> None:
        for version in (2, 3):
            world.written(tenant, "rs_001", version)
        world.superuser.execute("update tenant set version = version + 1 where tenant_id = %s", (tenant,))

    before_page(world, monkeypatch, 1, writes)
    world.exported()
    assert (world.one(TENANT, tenant), world.one(EXPORT, tenant)) == (("active",), ("ready",))
    assert [(line["version"], line["payload"]) for line in world.lines(tenant)] == [(1, {"version": 1})] * 3


#: what is amiss with one tenant, and how it is put right
AMISS = {
    "a row is missing": (
        "create table kept as select * from tenancy_pool.resource where tenant_id = %(t)s;"
        " delete from tenancy_pool.resource where tenant_id = %(t)s and resource_id = 'rs_001'",
        "insert into tenancy_pool.resource select * from kept on conflict do nothing",
    ),
    "a row is of another version than its head": (
        "update resource_head set version = 2 where tenant_id = %(t)s and resource_id = 'rs_001'",
        "update resource_head set version = 1 where tenant_id = %(t)s",
    ),
    "a key that sealed is missing": (
        "update tenant_key set key_version = 2 where tenant_id = %(t)s",
        "update tenant_key set key_version = 1 where tenant_id = %(t)s",
    ),
    "no key row is there": (
        "create table kept as select * from tenant_key where tenant_id = %(t)s; delete from tenant_key where tenant_id = %(t)s",
        "insert into tenant_key select * from kept",
    ),
}


@pytest.mark.parametrize("what", AMISS)
def test_an_export_waits_for_what_is_missing_and_others_go_on(world: MoverWorld, what: str) -> None:
    number = list(AMISS).index(what)
    tenant, other = world.tenant(f"tn_amiss_{number}", 3), world.tenant(f"tn_fine_{number}", 3)
    amiss, right = (text.replace("%(t)s", f"'{tenant}'") for text in AMISS[what])
    world.superuser.execute(amiss.encode())
    world.export(tenant)
    world.exported()
    world.export(other)
    world.exported()
    assert (world.one(EXPORT, tenant), world.one(EXPORT, other)) == (("running",), ("ready",))
    world.superuser.execute(right.encode())
    world.superuser.execute("drop table if exists kept")
    world.exported()
    assert (world.one(EXPORT, tenant), len(world.lines(tenant))) == (("ready",), 3)


def test_an_export_ends_with_the_keys_of_its_tenant_and_those_that_fail_hold_up_no_other(
    world: MoverWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOVER_ITEMS_MAX", 2)
    tenant = world.tenant("tn_shredded", 3, state="offboarding")
    world.export(tenant)
    world.superuser.execute(
        "update tenant_key set state = 'destroyed', wrapped = null, destroyed_at = 1 where tenant_id = %s", (tenant,)
    )
    world.exported()
    assert (world.one(TENANT, tenant), world.one(EXPORT, tenant)) == (("offboarding",), ("failed",))
    waiting = [world.tenant(f"tn_waiting_{n}", 1) for n in range(3)]
    for one in waiting:
        world.export(one)
        world.superuser.execute("update tenant_key set root_key_id = 'rk_away' where tenant_id = %s", (one,))
    late = world.tenant("tn_behind", 1)
    world.export(late)
    for _ in range(100):  # each time another order
        world.exported()
        if world.one(EXPORT, late) == ("ready",):
            break
    assert (world.one(EXPORT, late), world.one(RUNNING, waiting)) == (("ready",), (3,))


@pytest.mark.parametrize(("heard", "becomes"), [(True, "failed"), (False, "running")], ids=["shredded", "lease ended"])
def test_an_export_goes_on_only_while_its_mover_may_hold_the_keys(
    world: MoverWorld, monkeypatch: pytest.MonkeyPatch, *, heard: bool, becomes: str
) -> None:
    """It may have read the keys long before the shred that it hears of, or stood still until its lease had ended."""
    tenant = world.tenant(f"tn_held_{becomes}", 3)
    world.export(tenant)

    def meanwhile() -> None:
        if heard:
            world.lease.answered(world.lease.asking(), [(1, tenant)])
        else:
            world.lease.leaving()

    before_page(world, monkeypatch, 2, meanwhile)
    world.exported()
    assert world.one(EXPORT, tenant) == (becomes,)
    assert world.one("select count(*) from tenant_export_part where tenant_id = %s", tenant) == (0,)


class Holder:
    """A process with a lease, in the role that it has."""

    def __init__(self, stack: World, role: str) -> None:
        self.connection = psycopg.connect(stack.addresses.postgres_dsns[role], autocommit=True)
        self.lease = KeyLease("of a test")
        self.renew()

    def renew(self) -> bool:
        """Once; whether there is something to acknowledge."""
        asking = self.lease.asking()
        rows = self.connection.execute(MOVER[asking.statement].encode(), asking.given).fetchall()
        return self.lease.answered(asking, rows)


def test_a_shred_is_certified_when_every_holder_of_keys_has_acknowledged_it_or_has_no_lease(
    world: MoverWorld, stack: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Holders of two kinds, and one whose lease ended by the database's clock, with a margin. Who holds it up is told once."""
    monkeypatch.setattr(limits, "KEY_LEASE_S", 3_600)  # nothing ends but what this test ends
    monkeypatch.setattr(limits, "KEY_LEASE_MARGIN_S", 600)
    tenant, other, certificates = world.tenant("tn_held", 1), world.tenant("tn_also", 0), CertificateKeys(tmp_path)
    certificates.ensure()
    world.superuser.execute("delete from tenant_key where state = 'destroyed'; delete from key_holder")
    ingress, mover, gone = (Holder(stack, f"millrace_{role}") for role in ("ingress", "tenancy_mover", "ingress"))
    certifying = Certifying(world.places, certificates, Shredded(tmp_path))
    shred = "update tenant_key set state = 'destroyed', wrapped = null, destroyed_at = 1 where tenant_id = %s"
    ended = "update key_holder set lease_until = clock_timestamp() - %s * interval '1 second' where holder_id = %s"

    def certified(tenant: str) -> str | None:
        certifying.further(99 * SECOND_US)
        (found,) = world.one("select max(certificate_id) from tenant_key where tenant_id = %s", tenant)
        return found

    world.superuser.execute(shred, (tenant,))
    with capture_logs() as logs:
        assert (certified(tenant), certified(tenant)) == (None, None)
    assert sorted(log["kind"] for log in logs) == ["millrace_ingress", "millrace_ingress", "millrace_tenancy_mover"]
    assert REGISTRY.get_sample_value("millrace_tenancy_shreds_unacknowledged") == 3
    assert tenant in Shredded(tmp_path).all()
    world.superuser.execute(ended, (300, gone.lease.asking().given["holder"]))
    asking = mover.lease.asking()
    assert ingress.connection.execute(MOVER[asking.statement].encode(), asking.given).fetchall() == []  # not its own
    assert ingress.renew()
    assert certified(tenant) is None
    assert not ingress.renew()  # acknowledged
    assert certified(tenant) is None
    mover.renew()
    assert not mover.renew()
    assert certified(tenant) is None  # of the one that is gone, within the margin
    world.superuser.execute(ended, (900, gone.lease.asking().given["holder"]))
    certificate = certified(tenant)
    (document,) = world.one("select document from tenant_certificate where certificate_id = %s", certificate)
    proof = {one["store"]: one["proof"] for one in json.loads(document)["stores"]}["memory of processes"]
    assert proof == "holders of keys: 2 acknowledged the shred, the leases of 1 had ended"
    world.superuser.execute(shred, (other,))
    assert certified(other) is None  # what was acknowledged before says nothing of this one
    assert ingress.renew()
    later = Holder(stack, "millrace_ingress")
    for one in (ingress, mover):
        one.renew()
        one.renew()
    gone.renew()
    assert certified(other) is None  # it goes on after all
    leaving = gone.lease.leaving()
    gone.connection.execute(MOVER[leaving.statement].encode(), leaving.given)
    assert certified(other)  # who came since, and who stopped in order, holds nothing of it
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        later.connection.execute("select from key_holder")
    for one in (ingress, mover, gone, later):
        one.connection.close()


@pytest.mark.parametrize(("more", "share"), [(0, ""), (1, "a sample of ")])
def test_a_certificate_tells_of_a_sample_only_where_there_is_more(
    world: MoverWorld, tmp_path: Path, more: int, share: str
) -> None:
    """So many rows as a sample has are all that there are."""
    tenant, certificates = world.tenant(f"tn_sample_{more}", limits.SHRED_SAMPLE_ROWS + more), CertificateKeys(tmp_path)
    certificates.ensure()
    world.superuser.execute("delete from tenant_key where state = 'destroyed'; delete from key_holder")
    shred = "update tenant_key set state = 'destroyed', wrapped = null, destroyed_at = 1 where tenant_id = %s"
    world.superuser.execute(shred, (tenant,))
    Certifying(world.places, certificates, Shredded(tmp_path)).further(99 * SECOND_US)
    asked = "select document from tenant_certificate where tenant_id = %s"
    proof = {one["store"]: one["proof"] for one in json.loads(world.one(asked, tenant)[0])["stores"]}
    (rows,) = (said for store, said in proof.items() if store.startswith("pooled:"))
    assert rows.startswith(f"{share}{limits.SHRED_SAMPLE_ROWS} rows lie without a key: ")
