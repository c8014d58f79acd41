"""Behind a rotation what lies under older keys is sealed anew: writes win, moves wait, and a key retires when it is unused."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from dataflows.tenancy.mover import resealing
from dataflows.tenancy.mover.resealing import Resealing
from schemas.tenancy import limits
from sinks.tenancy import seals
from sinks.tenancy.seals import TenantKey
from tests.eventually import eventually, patient
from tests.worlds.mover_world import POOL, world
from tests.worlds.public_system import system_of_its_own
from tests.worlds.tenancy_world import Tenancy, write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.mover_world import MoverWorld
    from tests.worlds.public_system import PublicSystem
    from tests.worlds.tenancy_world import Ledger

__all__ = ["world"]  # the fixture of this module
pytestmark = [pytest.mark.servers]
SECOND_US = 1_000_000
AT = 1_000 * SECOND_US
ROWS = (
    "select resource_id, payload from tenancy_pool.resource where tenant_id = %s and not deleted order by resource_id"
)
OLDER = "select closed_at is not null, retired_at is not null from tenant_key where tenant_id = %s and key_version = 1"
TOLD = "select looked_at, resealed, finished_at is not null from tenant_reseal where tenant_id = %s"


class Rotated:
    """A tenant of some rows whose key was rotated, and the mover's part that seals them anew."""

    def __init__(self, world: MoverWorld, name: str, resources: int) -> None:
        self.world, self.tenant = world, world.tenant(name, resources)
        if world.lease.term is None:
            world.lease.answered(world.lease.asking(), [(0,)])
        root, wrapped = world.root_keys.new_wrapped(name, 2)
        self.key = TenantKey(name, 2, world.root_keys.unwrap(name, 2, root, wrapped))
        world.superuser.execute("update tenant_key set state = 'decrypt_only' where tenant_id = %s", (name,))
        world.superuser.execute("insert into tenant_key values (%s, 2, %s, %s, 'active', 0)", (name, root, wrapped))
        self.mover = self.another()

    def another(self) -> Resealing:
        """A mover that knows nothing of what was done."""
        return Resealing(self.world.places, self.world.root_keys, self.world.lease)

    def turns(self, mover: Resealing, at_most: int = 20) -> None:
        """Until nothing is left to do."""
        for _ in range(at_most):
            mover._due_at, mover._look_at = 0.0, 0
            mover.further(AT)

    def under(self) -> dict[str, int]:
        """Which key each row is under."""
        rows = self.world.superuser.execute(ROWS.encode(), (self.tenant,)).fetchall()
        return {id_: seals.key_version_of(bytes(payload)) for id_, payload in rows}

    def written(self, resource: str, version: int) -> None:
        """As an owner commits a write that is sealed under the newest key."""
        sealed = self.key.seal("resources", resource, json.dumps({"version": version}).encode())
        changed = (
            "update tenancy_pool.resource set version = %s, payload = %s where tenant_id = %s and resource_id = %s"
        )
        self.world.superuser.execute(changed.encode(), (version, sealed, self.tenant, resource))

    def payloads(self) -> dict[str, Any]:
        """What every row says."""
        rows = self.world.superuser.execute(ROWS.encode(), (self.tenant,)).fetchall()
        keys = {1: self.world._keys[self.tenant], 2: self.key}
        opened = {r: keys[seals.key_version_of(bytes(p))].unseal("resources", r, bytes(p)) for r, p in rows}
        return {id_: json.loads(plain)["version"] for id_, plain in opened.items()}

    def one(self, query: str) -> Any:
        return self.world.one(query, self.tenant)


@pytest.fixture(autouse=True)
def pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RESEAL_PAGE_ROWS", 2)


def test_all_rows_and_exports_are_sealed_anew_and_the_older_key_retires_then(world: MoverWorld) -> None:
    found = Rotated(world, "tn_rows", 5)
    found.written("rs_003", 2)
    world.written_before(found.tenant, "rs_004", 1)
    world.superuser.execute("update tenancy_pool.resource set deleted = true, payload = '' where resource_id = 'rs_000'"
                            " and tenant_id = 'tn_rows'")  # fmt: skip
    sealed = world._keys[found.tenant].seal("exports", "ex_1:0", b"a line")
    world.superuser.execute("insert into tenant_export_part values (%s, 'ex_1', 0, %s)", (found.tenant, sealed))
    assert not found.mover.further(limits.RESEAL_AFTER_S * SECOND_US)  # just rotated
    assert found.one(OLDER) == (False, False)
    seen = []
    for _ in range(4):
        found.mover = found.another()
        found.turns(found.mover, 1)
        seen.append((sum(found.under().values()), found.one(OLDER)))
    assert seen == [(5, (True, False)), (6, (True, False)), (7, (True, False)), (8, (True, False))]
    found.turns(found.mover)
    assert (found.under(), found.one(OLDER)) == (dict.fromkeys(found.under(), 2), (True, True))
    assert found.payloads() == {"rs_001": 1, "rs_002": 1, "rs_003": 2, "rs_004": 1}
    assert found.one(TOLD) == (5, 3, True)
    ((part,),) = world.superuser.execute("select sealed from tenant_export_part where tenant_id = 'tn_rows'").fetchall()
    assert found.key.unseal("exports", "ex_1:0", bytes(part)) == b"a line"
    assert not found.another().further(AT)


def test_what_is_written_while_a_page_is_sealed_wins_and_a_row_that_is_locked_is_looked_at_again(
    world: MoverWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, real = Rotated(world, "tn_races", 3), world.places.reseal

    def meanwhile(*given: Any) -> set[str]:
        found.written("rs_000", 2)
        return real(*given)

    found.turns(found.mover, 1)
    monkeypatch.setattr(world.places, "reseal", meanwhile)
    found.turns(found.mover, 1)
    monkeypatch.undo()
    monkeypatch.setattr(limits, "RESEAL_PAGE_ROWS", 2)
    assert found.payloads() == {"rs_000": 2, "rs_001": 1, "rs_002": 1}
    with psycopg.connect(world.superuser.info.dsn, password=world.superuser.info.password) as writing:
        writing.execute(
            "select from tenancy_pool.resource where tenant_id = 'tn_races' and resource_id = 'rs_002' for update"
        )
        found.turns(found.mover)
        assert (found.under()["rs_002"], found.one(OLDER)) == (1, (True, False))
        writing.rollback()
    found.turns(found.mover)
    assert (found.under(), found.one(OLDER)) == ({"rs_000": 2, "rs_001": 2, "rs_002": 2}, (True, True))
    assert found.payloads() == {"rs_000": 2, "rs_001": 1, "rs_002": 1}


def test_nothing_is_sealed_anew_while_the_tenant_is_moved_or_an_older_image_is_on_its_way(world: MoverWorld) -> None:
    found = Rotated(world, "tn_moved", 2)
    move = world.move(found.tenant, "copying", POOL, world.own_store(found.tenant, "pl_resealed"))
    found.turns(found.mover)
    assert (found.under(), found.one(OLDER)) == ({"rs_000": 1, "rs_001": 1}, (False, False))
    world.superuser.execute("update tenant_migration set state = 'aborted' where migration_id = %s", (move,))
    world.written(found.tenant, "rs_001", 2, further=POOL)  # under the first key, and fed to where it is
    found.turns(found.mover)
    assert (found.under(), found.one(OLDER)) == ({"rs_000": 1, "rs_001": 1}, (True, False))
    world.superuser.execute("delete from resource_feed where tenant_id = %s", (found.tenant,))
    found.turns(found.mover)
    assert (found.under(), found.one(OLDER)) == ({"rs_000": 2, "rs_001": 2}, (True, True))


def test_a_row_that_does_not_open_keeps_its_key_from_being_retired_and_holds_up_no_other_tenant(
    world: MoverWorld,
) -> None:
    broken, other = Rotated(world, "tn_broken", 1), Rotated(world, "tn_other", 1)
    world.superuser.execute(
        "update tenancy_pool.resource set payload = payload || 'x'::bytea where tenant_id = 'tn_broken'"
    )
    broken.turns(broken.mover)
    assert (broken.one(OLDER), other.one(OLDER)) == ((True, False), (True, True))
    world.superuser.execute("delete from tenancy_pool.resource where tenant_id = 'tn_broken'")
    broken.turns(broken.mover)
    assert broken.one(OLDER) == (True, True)
    assert resealing.WAITING._value.get() == 0


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    home = tmp_path_factory.mktemp("resealed")
    with system_of_its_own(home, services=("ingress",), ingress_processes=1, processes=("tenancy_owner",)) as made:
        yield made


@pytest.mark.parametrize("mode", ["pooled", "dedicated"])
def test_rows_are_sealed_anew_by_movers_that_are_killed_and_read_all_the_while(system: PublicSystem, mode: str) -> None:
    tenancy = Tenancy(system)
    with tenancy.mover():
        caller, ledger = tenancy.tenant(mode), {}
        write(caller, ledger, 6)
        eventually(lambda: caller.resources() == ledger, 30)
    at = f"/v1/tenants/{caller.name}/keys"
    assert tenancy.staff.get(at)["resealing"] is None
    assert tenancy.staff.done("POST", f"{at}/rotate")["key_version"] == 2
    write(caller, ledger, 2)
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
        connection.execute("update tenant_key set created_at = 1 where tenant_id = %s", (caller.name,))  # long ago
        for _ in range(2):
            with tenancy.mover("reseal_after_page") as doomed:
                assert doomed.wait(timeout=patient(60)) == -signal.SIGKILL
            assert caller.resources() == ledger
        with tenancy.mover():
            eventually(lambda: (tenancy.staff.get(at)["resealing"] or {}).get("state") == "done", 60)
            (first, second) = tenancy.staff.get(at)["data"]
            assert (first["state"], second["state"], second["retired_at"]) == ("decrypt_only", "active", None)
            assert first["retired_at"] is not None
            assert caller.resources() == ledger
            write(caller, ledger, 3)
            eventually(lambda: caller.resources() == ledger, 30)
        if mode == "pooled":
            rows = connection.execute(ROWS.encode(), (caller.name,)).fetchall()
            assert {seals.key_version_of(bytes(payload)) for _, payload in rows} == {2}
    assert tenancy.broken_invariants() == {}
    tenancy.close()


def test_a_shred_ends_the_round_of_its_tenant_and_holds_up_no_other(system: PublicSystem) -> None:
    tenancy = Tenancy(system)
    gone, other = tenancy.tenant(), tenancy.tenant()
    ledger: Ledger = {}
    for caller in (gone, other):
        write(caller, ledger if caller is other else {}, 6)
        tenancy.staff.done("POST", f"/v1/tenants/{caller.name}/keys/rotate")
    at, beside = f"/v1/tenants/{gone.name}/keys", f"/v1/tenants/{other.name}/keys"
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
        rotated = "update tenant_key set created_at = 1 where tenant_id = %s"
        connection.execute(rotated.encode(), (gone.name,))  # long ago
        with tenancy.mover("reseal_after_page") as doomed:
            assert doomed.wait(timeout=patient(60)) == -signal.SIGKILL
        assert tenancy.staff.get(at)["resealing"]["state"] == "running"
        tenancy.staff.done("POST", f"{at}/shred", {"reason": "asked for"})
        connection.execute(rotated.encode(), (other.name,))
        with tenancy.mover():
            eventually(lambda: (tenancy.staff.get(beside)["resealing"] or {}).get("state") == "done", 60)
            eventually(lambda: tenancy.staff.get(at)["certificate_id"], 60)
        left = "select count(wrapped), bool_and(state = 'destroyed') from tenant_key where tenant_id = %s"
        assert connection.execute(left.encode(), (gone.name,)).fetchone() == (0, True)
    assert tenancy.staff.get(at)["resealing"] is None
    assert gone.http.get("/v1/resources").status_code == 410
    assert other.resources() == ledger
    assert tenancy.broken_invariants() == {}
    tenancy.close()
