"""Who changed what of a tenant: written with the change, by whichever process, and never changed itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.eventually import becomes, eventually
from tests.worlds.desk_world import DAY, OPEN, TODAY, Caller, a_tenant, billed, staff
from tests.worlds.public_system import system_of_its_own

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.public_system import PublicSystem

pytestmark = [pytest.mark.servers]
WRITERS = ("millrace_tenancy_owner", "millrace_tenancy_mover", "millrace_ingress")
NOT_THEIRS = (
    "delete from tenant_history",
    "update tenant_history set made_by = 'nobody'",
    "truncate tenant_history",
)


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    home, processes = tmp_path_factory.mktemp("history"), ("tenancy_owner", "tenancy_mover", "tenancy_monitor")
    with system_of_its_own(home, services=("ingress",), ingress_processes=1, processes=processes) as made:
        yield made
        while OPEN:
            OPEN.pop().close()


def history(ops: Caller, tenant: str, **asked: Any) -> dict[str, Any]:
    answer = ops.http.get(f"/v1/tenants/{tenant}/history", params=asked)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_every_change_of_a_tenant_says_who_made_it_and_what_was_before(system: PublicSystem) -> None:
    ops, another, tenant = (
        staff(system, "tenants:admin"),
        staff(system, "tenants:admin"),
        a_tenant(system, quotas={"resources": 9}),
    )
    other = a_tenant(system)
    path = f"/v1/tenants/{tenant.name}"
    ops.done("POST", f"{path}/keys/rotate")  # another version, in which nothing of this is other
    version = ops.http.get(path).json()["version"]
    ops.done("PATCH", path, {"tier": "enterprise", "quotas": {"resources": 5}}, expected_version=version)
    ops.done("POST", f"{path}/suspend", {"mode": "read_only", "reason": "unpaid"})
    another.done("POST", f"{path}/resume")
    found = history(ops, tenant.name)["data"]
    assert [(one["operation"], one["by"], one["version"]) for one in found] == [
        ("resume_tenant", "m_ops", version + 3),
        ("suspend_tenant", "m_ops", version + 2),
        ("change_tenant", "m_ops", version + 1),
        ("create_tenant", "m_ops", 1),
    ]
    assert found[2]["changed"] == {
        "quotas": {"from": {"resources": "9"}, "to": {"resources": "5"}},
        "tier": {"from": "standard", "to": "enterprise"},
    }
    assert found[1]["changed"]["state"] == {"from": "active", "to": "suspended"}
    assert found[3]["changed"]["state"] == {"from": None, "to": "active"}
    assert all(one["request_id"] for one in found)
    assert [one["person"] for one in found[:3]] == [another.person, ops.person, ops.person] != [ops.person] * 3
    first = history(ops, tenant.name, limit=3)
    rest = history(ops, tenant.name, limit=3, cursor=first["next_cursor"])
    assert ([*first["data"], *rest["data"]], rest["has_more"]) == (found, False)
    assert tenant.http.get(f"{path}/history").json()["data"] == found  # its administrator reads it, too
    assert other.http.get(f"{path}/history").status_code == 404


def test_what_a_mover_changes_by_itself_is_in_it_and_nobody_may_change_a_row(system: PublicSystem) -> None:
    ops, tenant = staff(system, "tenants:admin"), a_tenant(system)
    path = f"/v1/tenants/{tenant.name}"
    tenant.done("POST", "/v1/resources", {"n": 1})
    move = ops.done("POST", f"{path}/migrations", {"placement": {"mode": "partitioned"}})
    becomes(lambda: ops.http.get(f"{path}/migrations/{move['migration_id']}").json()["state"], "soaking", 60)
    newest = eventually(lambda: history(ops, tenant.name)["data"][0])
    assert (newest["by"], newest["person"], newest["operation"]) == ("millrace_tenancy_mover", None, None)
    assert newest["changed"]["placement_id"] == {"from": move["source"], "to": move["target"]}
    assert newest["changed"]["generation"] == {"from": 1, "to": 2}
    addresses = system.settings.addresses()
    for role in WRITERS:
        for statement in NOT_THEIRS:
            with (
                psycopg.connect(addresses.postgres_dsns[role]) as connection,
                pytest.raises(psycopg.errors.InsufficientPrivilege),
            ):
                connection.execute(statement.encode())


def test_an_owner_of_before_leaves_a_row_by_its_role(system: PublicSystem) -> None:
    """It writes the tenant alone: of more than one change in a commit there is one row, and it names no command."""
    tenant = a_tenant(system)
    with psycopg.connect(system.settings.addresses().postgres_dsns["millrace_tenancy_owner"]) as connection:
        connection.execute(
            "update tenant set tier = 'enterprise', version = version + 2 where tenant_id = %s", (tenant.name,)
        )
        connection.execute("update tenant set version = version + 1 where tenant_id = %s", (tenant.name,))
    found = history(staff(system, "tenants:admin"), tenant.name)["data"]
    assert [(one["by"], one["operation"], sorted(one["changed"])) for one in found][:-1] == [
        ("millrace_tenancy_owner", None, ["tier"])
    ]


def test_who_bills_corrects_or_gives_credit_is_named_beside_in_whose_name(system: PublicSystem) -> None:
    ops, another, tenant = staff(system, "tenants:admin"), staff(system, "tenants:admin"), a_tenant(system)
    root = f"/v1/tenants/{tenant.name}"
    run = billed(ops, tenant, TODAY - DAY, TODAY)
    less = {"dimension": "tokens", "quantity": -3, "at": run["from"], "unit_price": "1", "reason": "metered twice"}
    made = [
        ops.done("POST", f"{root}/usage_adjustments", less),
        another.done("POST", f"{root}/credits", {"amount": 15, "reason": "an outage"}),
    ]
    assert [(one["by"], one["person"]) for one in (run, *made)] == [
        ("m_ops", ops.person),
        ("m_ops", ops.person),
        ("m_ops", another.person),
    ]
    assert ops.http.get(f"{root}/billing_entries").json()["data"] == made[::-1]
    (listed,) = ops.http.get(f"{root}/billing_runs").json()["data"]
    assert listed | {"state": "collecting", "invoice_id": None} == run
    assert ops.http.get(f"{root}/billing_runs/{run['billing_run_id']}").json()["person"] == ops.person


def test_a_subject_that_is_no_persons_is_nobody(system: PublicSystem) -> None:
    nobody, tenant = Caller(system, "m_ops", "merchant", "s" * 129, ("tenants:admin",)), a_tenant(system)
    root = f"/v1/tenants/{tenant.name}"
    nobody.done("POST", f"{root}/suspend", {"mode": "read_only", "reason": "unpaid"})
    nobody.done("POST", f"{root}/credits", {"amount": 1, "reason": "an outage"})
    run = billed(nobody, tenant, TODAY - DAY, TODAY)
    changed = history(nobody, tenant.name)["data"][0]
    (entry,) = nobody.http.get(f"{root}/billing_entries").json()["data"]
    kept = nobody.http.get(f"{root}/billing_runs/{run['billing_run_id']}").json()
    assert [(one["by"], one["person"]) for one in (changed, entry, kept)] == [("m_ops", None)] * 3
