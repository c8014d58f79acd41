"""A schema that tenants share is emptied: in order, some at once, by movers that are killed, and retired when it is empty."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import psycopg
import pytest

from dataflows.tenancy.mover.draining import Draining
from dataflows.tenancy.mover.moves import Moves
from reconciliation.tenancy.tenant_stores import declare
from schemas.tenancy import limits
from tests.eventually import eventually, patient
from tests.worlds.desk_world import Caller as Person
from tests.worlds.mover_world import world
from tests.worlds.public_system import system_of_its_own
from tests.worlds.tenancy_world import Caller, Tenancy, write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.mover_world import MoverWorld
    from tests.worlds.public_system import PublicSystem

__all__ = ["world"]  # the fixture of this module
pytestmark = [pytest.mark.servers]
SECOND_US = 1_000_000
AT = 1_000 * SECOND_US
SECOND, THIRD = "tenancy_pool_2", "tenancy_pool_3"
PLANNED = (
    "select tenant_id from tenant_migration where drained_from = %s and source = 'pl_pool2_home' order by tenant_id"
)
STANDS = "select standing, tenants from tenant_store where store = %s"
MADE = "insert into tenant_store (store, mode) values (%s, 'pooled') on conflict do nothing"
PLACED = "insert into placement values ('pl_pool2_home', 'home', 'pooled', 'tenancy_pool_2', 'active', null) on conflict do nothing"
STAND = "select tenant_store_stand(%s, %s, %s, 's_1', 'a disk')"


class Drained:
    """One schema with tenants in it, in a database of rows, and the mover's part that empties it."""

    def __init__(self, world: MoverWorld) -> None:
        self.world, self.mover = world, Draining(world.places)

    def tenant(self, name: str, at: int) -> None:
        self.world.tenant(name, 0)
        self.world.superuser.execute(
            "update tenant set placement_id = 'pl_pool2_home', created_at = %s, version = version + 1 where tenant_id = %s",
            (at, name),
        )
        self.world.superuser.execute("update tenant_store set tenants = tenants + 1 where store = %s", (SECOND,))
        self.world.superuser.execute("update tenant_store set tenants = tenants - 1 where store = 'tenancy_pool'")

    def planned(self) -> list[str]:
        return [row[0] for row in self.world.superuser.execute(PLANNED.encode(), (SECOND,))]

    def stand(self, store: str, stands: str) -> str:
        (word,) = self.world.one(STAND, store, stands, None)
        return str(word)

    def over(self, tenant: str, state: str, at: int) -> None:
        changed = "update tenant_migration set state = %s, updated_at = %s where tenant_id = %s"
        self.world.superuser.execute(changed.encode(), (state, at, tenant))


def test_tenants_are_moved_in_their_order_some_at_once_and_a_store_retires_only_when_it_is_empty(
    world: MoverWorld,
) -> None:
    found, many = Drained(world), limits.DRAIN_MOVES_MAX + 2
    world.superuser.execute("select tenancy.make_store(%s)", (SECOND,))
    world.superuser.execute(MADE.encode(), (SECOND,))
    world.superuser.execute(PLACED)
    for n in range(many):
        found.tenant(f"tn_d{n:02}", many - n)  # the last one came first
    assert not found.mover.further(AT)
    assert found.stand("schemas", "draining") == "store_not_shared"
    assert found.stand("nowhere", "draining") == "not_found"
    world.superuser.execute("update tenant_key set state = 'destroyed', wrapped = null, destroyed_at = 1"
                            " where tenant_id = 'tn_d09'")  # fmt: skip
    assert [found.stand(SECOND, "draining") for _ in range(2)] == ["draining", "store_draining"]
    assert found.stand("tenancy_pool", "draining") == "store_last"
    oldest = [f"tn_d{n:02}" for n in range(many - 1 - limits.DRAIN_MOVES_MAX, many - 1)]
    assert found.mover.further(AT)
    assert found.planned() == oldest
    assert not Draining(world.places).further(AT + SECOND_US)  # a mover that knows nothing of it
    found.over("tn_d01", "aborted", AT)
    found.over("tn_d02", "soaking", AT)
    assert found.mover.further(AT + SECOND_US)
    assert found.planned() == ["tn_d00", *oldest]  # who was moved in vain waits, and who soaks takes no turn
    assert not found.mover.further(AT + 2 * SECOND_US)
    assert [found.mover.further(AT + n * limits.DRAIN_AGAIN_S * SECOND_US) for n in (1, 2)] == [True, False]
    again = "select count(*) from tenant_migration where tenant_id = 'tn_d01'"
    assert world.one(again) == (2,)
    with pytest.raises(psycopg.errors.CheckViolation):
        world.superuser.execute("update tenant_store set standing = 'retired' where store = %s", (SECOND,))
    assert world.one(STANDS, SECOND) == ("draining", many)
    world.superuser.execute(
        "update tenant set state = 'deleted', version = version + 1 where placement_id = 'pl_pool2_home'"
    )
    for n in range(many):
        found.over(f"tn_d{n:02}", "aborted", AT)
    assert found.mover.further(AT)
    assert world.one(STANDS, SECOND) == ("retired", 0)
    with pytest.raises(psycopg.errors.CheckViolation):
        world.superuser.execute("update tenant_store set tenants = 1 where store = %s", (SECOND,))
    assert found.stand(SECOND, "open") == "opened"


def test_nobody_is_moved_where_no_other_store_has_room(world: MoverWorld) -> None:
    found = Drained(world)
    world.superuser.execute(MADE.encode(), (SECOND,))
    world.superuser.execute(MADE.encode(), (THIRD,))
    world.superuser.execute(PLACED)
    found.tenant("tn_stays", 1)
    assert found.stand(SECOND, "draining") == "draining"
    (held,) = world.one("select tenants from tenant_store where store = 'tenancy_pool'")
    bound = "update tenant_store set tenants_max = %s where store in ('tenancy_pool', 'tenancy_pool_3')"
    world.superuser.execute(bound.encode(), (0,))
    assert not found.mover.further(AT)
    world.superuser.execute(bound.encode(), (held + 1,))
    assert found.stand(THIRD, "draining") == "draining"
    assert [found.mover.further(AT) for _ in range(2)] == [True, False]
    assert world.one(STANDS, THIRD) == ("retired", 0)
    target = "select target from tenant_migration where tenant_id = 'tn_stays'"
    assert world.one(target) == ("pl_pool_home",)
    assert Moves(world.places, lambda: AT).further()


def _shell(system: PublicSystem, who: Person | Caller, *words: str) -> str:
    token = who.http.headers["Authorization"].removeprefix("Bearer ")
    command = [sys.executable, "-m", "tests.worlds.command_line", "tenants", *words]
    environment = os.environ | system.settings.environment() | {"MILLRACE_TOKEN": token}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=patient(120))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.rstrip()


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    home = tmp_path_factory.mktemp("drained")
    with system_of_its_own(home, services=("ingress",), ingress_processes=1, processes=("tenancy_owner",)) as made:
        yield made


def test_a_schema_is_drained_over_the_api_though_movers_are_killed(system: PublicSystem) -> None:
    tenancy = Tenancy(system)
    platform = Person(system, "s_ann", "staff", "", ("operator:platform",))
    finance = Person(system, "s_bob", "staff", "", ("operator:finance",))
    callers = [tenancy.tenant() for _ in range(3)]
    ledgers: list[dict[str, tuple[int, object]]] = [{} for _ in callers]
    for caller, ledger in zip(callers, ledgers, strict=True):
        write(caller, ledger, 4)
    at = "/v1/placements/tenancy_pool"

    def told(store: str) -> dict[str, object]:
        return {one["store"]: one for one in tenancy.staff.get("/v1/placements")["data"]}[store]

    with platform.http, finance.http:
        note = {"note": "its disk is replaced"}
        assert platform.http.post(f"{at}/drain", json=note).json()["code"] == "state_conflict"  # the only one
        with psycopg.connect(
            system.settings.addresses().postgres_dsns["millrace_operator"], autocommit=True
        ) as operator:
            declare(operator, SECOND, {})
        with tenancy.mover():
            eventually(lambda: told(SECOND)["state"] == "active", 60)
        for wrong in ({}, note | {"soak_s": -1}, note | {"soak_s": "1"}, note | {"more": 1}):
            assert platform.http.post(f"{at}/drain", json=wrong).status_code in (400, 422), wrong
        assert finance.http.post(f"{at}/drain", json=note).status_code == 403
        assert tenancy.staff.http.post(f"{at}/drain", json=note).status_code == 403
        assert platform.http.post("/v1/placements/nowhere/drain", json=note).status_code == 404
        drained = platform.http.post(f"{at}/drain", json=note | {"soak_s": 0})
        assert (drained.status_code, drained.json()["result"]["state"]) == (200, "draining")
        later = tenancy.staff.done("POST", "/v1/tenants", {"name": "Later"})
        assert later["placement"]["shard_or_database"] == SECOND
        for point in ("drain_after_plan", "move_before_commit", "move_after_commit"):
            with tenancy.mover(point) as doomed:
                assert doomed.wait(timeout=patient(60)) == -signal.SIGKILL
        with tenancy.mover():
            eventually(lambda: told("tenancy_pool")["state"] == "retired", 120)
        assert (told("tenancy_pool")["tenants"], told(SECOND)["tenants"]) == (0, 4)
        for caller, ledger in zip(callers, ledgers, strict=True):
            assert caller.resources() == ledger
            write(caller, ledger, 3)
            assert caller.resources() == ledger
        shell = _shell(system, platform, "placements-activate", "tenancy_pool", "--note", "it is there")
        assert shell == "tenancy_pool is active, with 0 tenants"
        rows = _shell(system, tenancy.staff, "placements").splitlines()
        assert [row.split() for row in rows if row.startswith(SECOND)] == [
            [SECOND, "active", "4", "1,000,000", "0", "0"]
        ]
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn) as connection:
        said = "select action, actor from audit_log where action like 'placement.%' and outcome = 'done' order by seq"
        assert connection.execute(said).fetchall() == [
            ("placement.drain", "s_ann"),
            ("placement.activate", "s_ann"),
        ]
    assert tenancy.broken_invariants() == {}
    tenancy.close()
