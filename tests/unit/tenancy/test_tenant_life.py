"""Tenants, resources and moves in memory: what each command makes of them, and what it may not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from dataflows.owner.service import Committed
from dataflows.tenancy.changes import Changes
from dataflows.tenancy.desk import DeskWorkspace
from dataflows.tenancy.domain import entitled, migration, resource, tenant
from dataflows.tenancy.domain.capacity import Store
from dataflows.tenancy.domain.migration import Migration
from dataflows.tenancy.domain.resource import Head
from dataflows.tenancy.domain.tenant import Placement, Tenant
from dataflows.tenancy.known import Known
from dataflows.tenancy.owner_costs import OwnerCosts
from dataflows.tenancy.partition import TenancyPartition
from dataflows.tenancy.workspace import TenancyWorkspace
from schemas.records import Command, Denial, Rejection
from schemas.tenancy import limits
from schemas.tenancy.operations import resource_of, scope_of
from schemas.topics import partition_for
from sinks.tenancy import seals
from sinks.tenancy.contexts import Contexts
from sinks.tenancy.root_keys import RootKeys
from sinks.tenancy.seals import TenantKey
from tests.each import each

TENANT = "tn_a"


def command(operation: str, payload: dict[str, Any], key: str = "k", version: int | None = None) -> Command:
    return Command(
        operation=operation,
        request_id="r",
        idempotency_key=key,
        aggregate_key=TENANT,
        expected_version=version,
        scope=scope_of(TENANT),
        request_hash=b"",
        trace_id="t",
        issued_at=0,
        deadline_at=0,
        reply_to=-1,
        reply_id=0,
        payload=payload,
    )


def made(mode: str = "pooled", **changes: Any) -> Tenant:
    given = {"name": "A", "tier": "standard", "timezone": "UTC", "home_currency": "USD", "quotas": {}, "prices": {}}
    placement = tenant.placement_of({"mode": mode}, TENANT, "1")
    return structs.replace(tenant.created(command("create_tenant", given), placement, 1), **changes)


LIFE = {
    "suspend": lambda t: tenant.suspended(t, command("suspend_tenant", {"mode": "blocked", "reason": "x"}), 2),
    "resume": lambda t: tenant.resumed(t, 2),
    "offboard": lambda t: tenant.offboarded(t, command("offboard_tenant", {"reason": "x"}), 2),
    "delete": lambda t: tenant.deleting(t, command("delete_tenant", {"reason": "x"}), 2),
    "delete shredded": lambda t: tenant.deleting(t, command("delete_tenant", {"reason": "x"}), 2, is_shredded=True),
}
ALLOWED = {
    ("active", "suspend"): "suspended",
    ("suspended", "suspend"): "suspended",
    ("suspended", "resume"): "active",
    ("provisioning", "offboard"): "offboarding",  # perhaps its store can never be made
    ("active", "offboard"): "offboarding",
    ("suspended", "offboard"): "offboarding",
    ("exported", "delete"): "deleting",
    ("exported", "delete shredded"): "deleting",
    ("offboarding", "delete shredded"): "deleting",  # nobody can export it
}


@each("verb", LIFE)
@each("state", ["provisioning", "active", "suspended", "offboarding", "exported", "deleting", "deleted"])
def test_a_life_goes_only_where_it_may(state: str, verb: str) -> None:
    before = made(state=state, suspension="blocked" if state == "suspended" else None)
    after = LIFE[verb](before)
    if (state, verb) not in ALLOWED:
        assert isinstance(after, Rejection)
        assert (after.code, after.extra) == ("state_conflict", {"state": state, "current_state": state})
        return
    assert isinstance(after, Tenant)
    assert after.state == ALLOWED[state, verb]
    assert (after.version, after.policy_version) == (before.version + 1, before.policy_version + 1)
    assert (after.suspension is not None) == (after.state == "suspended")


@pytest.mark.parametrize("state", ["provisioning", "suspended", "offboarding", "exported", "deleting", "deleted"])
def test_only_an_active_tenant_writes_and_the_refusal_is_not_kept(state: str) -> None:
    assert isinstance(tenant.why_no_writes(made(state=state)), Denial)
    assert isinstance(tenant.why_no_writes(None), Denial)
    assert tenant.why_no_writes(made()) is None


def test_who_has_a_store_already_serves_at_once() -> None:
    assert made().state == "active"
    assert (made("partitioned").state, made("dedicated").state) == ("provisioning", "provisioning")


def create(key: str = "k", quotas: dict[str, str] | None = None, used: int = 0) -> Head | Rejection:
    said = {"resource_id": resource_of(scope_of(TENANT), key), "size": 3}
    return resource.decide(None, made(quotas=quotas or {}), used, command("create_resource", said, key), 5)


def test_a_hard_quota_refuses_at_its_limit_and_not_before() -> None:
    assert isinstance(create(quotas={"resources": "2"}, used=1), Head)
    over = create(quotas={"resources": "2"}, used=2)
    assert isinstance(over, Denial)
    assert over.extra == {"dimension": "resources", "limit": 2, "used": 2}
    assert isinstance(create(quotas={"resources": "1"}, used=5), Denial)  # a limit below what is used
    assert isinstance(create(quotas={"resources": ""}, used=10**9), Head)


LIMITS = entitled.limits_of(
    {"a": "limit:resources:3:soft", "b": "limit:resources:5:hard", "c": "limit:resources::hard"}
)


def test_a_hard_limit_refuses_and_a_soft_one_warns_of_what_is_beyond_it() -> None:
    said = {"resource_id": resource_of(scope_of(TENANT), "k"), "size": 3}
    for used, refused in ((4, None), (5, {"feature": "b", "dimension": "resources", "limit": 5, "used": 5})):
        found = resource.decide(None, made(), used, command("create_resource", said), 5, LIMITS)
        assert (found.extra if isinstance(found, Denial) else None) == refused
    warned = [entitled.warnings(LIMITS, used) for used in (3, 4)]
    assert warned == [[], [{"feature": "a", "dimension": "resources", "limit": 3, "used": 4}]]


def test_a_resource_is_written_at_the_version_that_is_expected_and_stays_deleted() -> None:
    head = create()
    assert isinstance(head, Head)
    replace = command("replace_resource", {"resource_id": head.resource_id, "size": 9}, "x", 1)
    second = resource.decide(head, made(), 1, replace, 6)
    assert isinstance(second, Head)
    assert (second.version, second.size, second.created_at) == (2, 9, head.created_at)
    stale = resource.decide(second, made(), 1, replace, 7)
    assert isinstance(stale, Rejection)
    assert (stale.code, stale.extra) == ("version_conflict", {"current_version": 2})
    delete = command("delete_resource", {"resource_id": head.resource_id}, "y", 2)
    gone = resource.decide(second, made(), 1, delete, 8)
    assert isinstance(gone, Head)
    assert (gone.deleted, gone.version, gone.size) == (True, 3, 0)
    again = resource.decide(gone, made(), 0, command("replace_resource", {"resource_id": "r", "size": 1}, "z", 3), 9)
    assert isinstance(again, Rejection)
    assert again.code == "not_found"


def workspace(
    *versions: tuple[str, str, int], version: int = 4, keys: tuple[tuple[str, int, str], ...] = ((TENANT, 1, "active"),)
) -> TenancyWorkspace:
    """An owner that has the tenant, an open move of it at its fifth version, and these ended ones."""
    placement = tenant.placement_of({"mode": "pooled"}, TENANT, "1")
    tenants, placements = [structs.astuple(made(version=version))], [structs.astuple(placement)]
    moves = [structs.astuple(move("soaking", version=5))]
    ended = [(TENANT, *one) for one in versions]
    known = Known(tenants, placements, list(keys), [], [], moves, ended)
    return deciding(known)


def deciding(known: Known) -> TenancyWorkspace:
    changes = Changes(0, Contexts(None), RootKeys(None))
    return TenancyWorkspace(
        partition_for(TENANT, limits.TENANCY_PARTITIONS), known, changes, DeskWorkspace(0, []), OwnerCosts()
    )


TOLD = {"migration_id": "mg_1"}
PERIOD = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z", "grace_s": 0}
GRANT = {"person": "s_1", "reason": "r", "ticket": "t", "scopes": ["resources:read"], "duration_s": 60}
GRANT |= {"break_glass": None, "masked_fields": None, "not_before": None}
CREDIT = {"amount": 1, "reason": "r"}
SAID: dict[str, tuple[dict[str, Any], int]] = {  # and the version that is current
    "change_tenant": ({"name": "B"}, 4),
    "suspend_tenant": ({"mode": "blocked", "reason": "r"}, 4),
    "offboard_tenant": ({"reason": "r"}, 4),
    "rotate_tenant_key": ({}, 4),
    "shred_tenant_keys": ({"reason": "r"}, 4),
    "export_tenant": ({}, 4),
    "grant_credit": (CREDIT, 4),
    "request_support_grant": (GRANT, 4),
    "rollback_migration": (TOLD, 5),
    "complete_migration": (TOLD, 5),
}
MAKES = ("export_tenant", "grant_credit", "request_support_grant")


@each("operation", [*SAID, "resume_tenant", "delete_tenant", "start_migration", "create_billing_run"])
def test_a_call_that_names_another_version_changes_nothing(operation: str) -> None:
    """Who shreds what it looked at must not shred what became of it since."""
    payload, current = SAID.get(operation, (PERIOD | {"placement": {"mode": "dedicated"}, "reason": "r"}, 4))
    for expected in (current - 1, current + 1, 10**9):
        refused = workspace().decide(command(operation, payload, version=expected), 0, 2)
        assert isinstance(refused, Rejection)
        assert (refused.code, refused.extra) == ("version_conflict", {"current_version": current})
    if operation in SAID:
        taken = [v for v in (None, current, 0) if isinstance(decided(operation, payload, v), Committed)]
        assert taken == [None, current, *([0] if operation in MAKES else [])]


def decided(operation: str, payload: dict[str, Any], version: int | None) -> Committed | Rejection:
    return workspace().decide(command(operation, payload, version=version), 0, 2)


@pytest.mark.parametrize("operation", ["rotate_tenant_key", "shred_tenant_keys"])
def test_a_tenant_whose_key_rows_are_lost_is_told_so_and_changes_no_key(operation: str) -> None:
    found = workspace(keys=())
    refused = found.decide(command(operation, {"reason": "r"}), 0, 2)
    assert isinstance(refused, Denial)
    assert (refused.code, found.writes()) == ("unavailable", [])


def test_keys_are_held_before_a_root_key_is_chosen_for_them_and_for_no_other_command() -> None:
    partition = TenancyPartition(None, 0, contexts=Contexts(None), root_keys=RootKeys(None))
    read = {name: partition.reads([TENANT], [command(name, said | {"tier": None})]) for name, (said, _) in SAID.items()}
    read["create_tenant"] = partition.reads([TENANT], [command("create_tenant", {"name": "A"})])
    held = {name for name, statements in read.items() if any(text.startswith("lock table") for text, _ in statements)}
    assert held == {"create_tenant", "rotate_tenant_key"}
    rows: list[list[tuple[Any, ...]]] = [[] for _ in read["create_tenant"]]
    assert partition.begin(rows).writes() == []


def test_what_is_made_is_not_there_yet_and_what_is_over_has_its_last_version() -> None:
    said = {"resource_id": resource_of(scope_of(TENANT), "k"), "size": 3, "sealed": ""}
    for version, taken in ((None, True), (0, True), (1, False)):
        found = resource.decide(None, made(), 0, command("create_resource", said, version=version), 5)
        assert isinstance(found, Head) == taken
    over = workspace(("mg_0", "completed", 9))
    for version, code in ((None, "state_conflict"), (9, "state_conflict"), (8, "version_conflict")):
        refused = over.decide(command("abort_migration", {"migration_id": "mg_0"}, version=version), 0, 2)
        assert isinstance(refused, Rejection)
        assert refused.code == code
        assert refused.extra.get("current_state", "completed") == "completed"
    never = over.decide(command("abort_migration", {"migration_id": "mg_9"}, version=8), 0, 2)
    assert isinstance(never, Rejection)
    assert never.code == "not_found"


def test_a_create_makes_the_resource_of_its_own_identity_alone() -> None:
    foreign = command("create_resource", {"resource_id": "rs_chosen", "size": 1})
    assert isinstance(resource.decide(None, made(), 0, foreign, 1), Rejection)


def target(asked: dict[str, str], serving: dict[str, str]) -> Placement | Rejection:
    return migration.target_of(asked, made(), tenant.placement_of(serving, TENANT, "1"), "mg_1")


def test_a_move_stays_in_the_region_where_the_tenant_is_unless_it_says_another() -> None:
    for mode, region in (("partitioned", None), ("dedicated", None), ("partitioned", "us-2")):
        asked = {"mode": mode} | ({"region": region} if region else {})
        found = target(asked, {"mode": "pooled", "region": "eu-1"})
        assert isinstance(found, Placement)
        assert (found.mode, found.region) == (mode, region or "eu-1")
    back = target({"mode": "pooled"}, {"mode": "dedicated", "region": "eu-1"})
    assert isinstance(back, Placement)
    assert back.placement_id == "pl_pool_eu_1"


@pytest.mark.parametrize("region", ["eu-1", "home", "us-2", None])
def test_no_move_leads_to_the_store_where_the_rows_are(region: str | None) -> None:
    """The pools of all regions are one store: what would be emptied of one is what the other serves."""
    asked = {"mode": "pooled"} | ({"region": region} if region else {})
    refused = target(asked, {"mode": "pooled", "region": "eu-1"})
    assert isinstance(refused, Rejection)
    assert (refused.code, refused.extra["current_state"]) == ("state_conflict", "active")
    own = target({"mode": "partitioned"}, {"mode": "partitioned"})  # another schema of its own
    assert isinstance(own, Placement)


def move(state: str = "planned", **changes: Any) -> Migration:
    target = tenant.placement_of({"mode": "dedicated"}, TENANT, "2")
    return structs.replace(migration.planned(made(), target, "mg_1", 100, 1), state=state, **changes)


BEFORE = ("planned", "prepared", "copying", "catching_up", "verifying", "fencing")
ENDED = ("completed", "aborted", "rolled_back", "aborting", "rolling_back", "committed")


@each("state", [*BEFORE, "soaking", *ENDED])
def test_a_move_is_aborted_before_its_commit_and_turned_back_or_completed_after_it(state: str) -> None:
    found = {verb: migration.told(move(state), f"{verb}_migration", 9) for verb in ("abort", "rollback", "complete")}
    taken = {verb for verb, after in found.items() if isinstance(after, Migration)}
    assert taken == ({"abort"} if state in BEFORE else {"rollback", "complete"} if state == "soaking" else set())
    for after in (*found.values(), migration.told(move("soaking", closing=True), "rollback_migration", 9)):
        assert isinstance(after, Migration) or after.extra["current_state"] in (state, "soaking")
    assert isinstance(migration.told(move("soaking", closing=True), "rollback_migration", 9), Rejection)


def test_the_other_side_gets_images_as_long_as_it_may_serve() -> None:
    one = move()
    gets = {
        s: move(s).further_placement(one.source if s in BEFORE else one.target) for s in (*BEFORE, "soaking", *ENDED)
    }
    assert {s for s, place in gets.items() if place == one.target} == set(BEFORE) - {"planned"}
    assert {s for s, place in gets.items() if place == one.source} == {"committed", "soaking", "rolling_back"}
    assert move("rolling_back").further_placement(one.source) is None  # it serves again
    assert move("soaking", closing=True).further_placement(one.target) is None  # it is being emptied


def a_store(name: str, tenants: int, tenants_max: int | None = 10, **more: Any) -> Store:
    mode = {"schemas": "partitioned", "databases": "dedicated"}.get(name, "pooled")
    given = {"bytes_max": None, "bytes": None} | more
    return Store(store=name, mode=mode, tenants_max=tenants_max, tenants=tenants, **given)


def a_batch(*stores: Store, serving: str = "pooled") -> TenancyWorkspace:
    """An owner that has the tenant, which is not moved, and these stores."""
    placement = tenant.placement_of({"mode": serving}, TENANT, "1")
    tenants = [structs.astuple(made(serving, version=4, state="active"))]
    places = [structs.astuple(store) for store in stores]
    return deciding(Known(tenants, [structs.astuple(placement)], [(TENANT, 1, "active")], [], [], [], [], places))


def test_the_last_place_of_a_store_is_given_once_in_a_batch() -> None:
    given = {"name": "A", "tier": "standard", "timezone": "UTC", "home_currency": "USD", "quotas": {}, "prices": {}}
    said = given | {"placement": {"mode": "pooled", "region": "eu-1"}}
    names = [n for n in map("tn_{}".format, range(99)) if partition_for(n, limits.TENANCY_PARTITIONS)
             == partition_for(TENANT, limits.TENANCY_PARTITIONS)]  # fmt: skip
    found = a_batch(a_store("tenancy_pool", 10), a_store("tenancy_pool_2", 9))
    sent = [structs.replace(command("create_tenant", said), aggregate_key=name) for name in names[:2]]
    one, other = (found.decide(each, 0, 2) for each in sent)
    assert isinstance(one, Committed)
    assert one.result["placement"]["shard_or_database"] == "tenancy_pool_2"
    assert one.result["placement_id"] == "pl_pool2_eu_1"
    assert isinstance(other, Denial)
    assert (other.code, other.extra) == ("placement_full", {"mode": "pooled", "capacity": 20, "used": 20})
    ((_, columns),) = found._changes._of_stores()
    assert [list(column.values) for column in columns] == [["tenancy_pool_2"], [10]]


@pytest.mark.parametrize(
    ("stores", "serving", "mode", "wanted"),
    [
        ([a_store("tenancy_pool", 1), a_store("databases", 10)], "pooled", "dedicated", "placement_full"),
        ([a_store("tenancy_pool", 1), a_store("databases", 9)], "pooled", "dedicated", "pl_"),
        ([a_store("tenancy_pool", 10)], "dedicated", "pooled", "placement_full"),
        ([a_store("tenancy_pool", 9)], "dedicated", "pooled", "pl_pool_home"),
        ([a_store("tenancy_pool", 1)], "pooled", "pooled", "state_conflict"),
        ([a_store("tenancy_pool", 1), a_store("tenancy_pool_2", 10)], "pooled", "pooled", "placement_full"),
        ([a_store("tenancy_pool", 1), a_store("tenancy_pool_2", 9)], "pooled", "pooled", "pl_pool2_home"),
    ],
)
def test_a_move_takes_a_place_at_its_target_or_is_refused_before_it_is_one(
    stores: list[Store], serving: str, mode: str, wanted: str
) -> None:
    found = a_batch(*stores, serving=serving)
    decided = found.decide(command("start_migration", {"placement": {"mode": mode}, "rows_per_second": 1}), 0, 2)
    if isinstance(decided, Rejection):
        assert (decided.code, found.writes()) == (wanted, [])
        return
    assert decided.result["target"].startswith(wanted)
    assert any("t.places" in text for text, _ in found.writes())


def test_what_is_sealed_under_a_closed_key_is_not_written_and_may_be_sent_again() -> None:
    """Also in the batch that rotates once more; deletes carry no seal."""
    keys, of_others = (
        [(TENANT, 1, "closed"), (TENANT, 2, "active")],
        [structs.astuple(made("pooled", version=4, state="active"))],
    )
    placement = structs.astuple(tenant.placement_of({"mode": "pooled"}, TENANT, "1"))
    found = deciding(Known(of_others, [placement], keys, [], [], [], [], []))
    made_of = {"resource_id": resource_of(scope_of(TENANT), "k"), "size": 1, "key_version": 1}
    sealed = {n: seals.as_text(TenantKey(TENANT, n, b"k" * 32).seal("resources", "r", b"x")) for n in (1, 2)}
    assert isinstance(found.decide(command("rotate_tenant_key", {}), 0, 2), Committed)
    refused = found.decide(command("create_resource", made_of | {"sealed": sealed[1]}), 0, 2)
    assert isinstance(refused, Denial)
    assert (refused.code, "same identity" in refused.detail) == ("unavailable", True)
    assert isinstance(found.decide(command("create_resource", made_of | {"sealed": sealed[2]}), 0, 2), Committed)


def test_a_write_says_the_policy_that_its_batch_leaves() -> None:
    """What changes the tenant in the same batch is written before: a store would refuse an older one."""
    found = a_batch()
    made_of = {"resource_id": resource_of(scope_of(TENANT), "k"), "size": 1, "sealed": ""}
    assert isinstance(found.decide(command("create_resource", made_of), 0, 2), Committed)
    assert isinstance(found.decide(command("change_tenant", {"name": "B"}), 0, 3), Committed)
    ((contexts, *_),) = [parameters for text, parameters in found.writes() if "apply_rows" in text]
    policies = {context.split("|")[4] for context in contexts.values}
    assert policies == {"2"}
