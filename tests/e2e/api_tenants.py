"""Tenants, what is theirs and what their desks decide, that the calls of the document are about."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from tests.eventually import becomes, eventually

if TYPE_CHECKING:
    from tests.e2e.api_world import ApiWorld

Json = dict[str, Any]
_NOW: Final = datetime.now(UTC)


def of_tenants(world: ApiWorld) -> None:
    desk, tenant = world.who["desk"], world.who["tenant"]
    mine = {"tenant_id": world.tenant}
    world.about(
        mine, "get_tenant", "rotate_tenant_key", "list_keys", "export_tenant", "list_migrations",
        "create_billing_run", "list_billing_runs", "adjust_usage", "grant_credit", "set_entitlements",
        "get_tenant_entitlements", "request_support_grant", "list_support_grants", "list_billing_entries",
        "list_tenant_quotas", "list_tenant_exports", "list_tenant_history",
    )  # fmt: skip
    desk.does(
        "PUT", f"/v1/tenants/{world.tenant}/entitlements", {"entitlements": {"sso": {"kind": "bool", "value": True}}}
    )
    world.about({"feature": "sso"}, "require_entitlement")
    world.bodies["change_tenant"] = {"name": "Another name"}
    suspended, resumed, offboarded, deleted, shredded, moved, back, changed = (world.active_tenant() for _ in range(8))
    world.about({"tenant_id": changed}, "change_tenant")
    world.about({"tenant_id": suspended}, "suspend_tenant")
    desk.does("POST", f"/v1/tenants/{resumed}/suspend", {"mode": "blocked", "reason": "unpaid"})
    world.about({"tenant_id": resumed}, "resume_tenant", "start_migration")
    world.about({"tenant_id": offboarded}, "offboard_tenant")
    for leaves in (deleted, shredded):
        desk.does("POST", f"/v1/tenants/{leaves}/offboard", {"reason": "leaves"})
    exports = {one: desk.does("POST", f"/v1/tenants/{one}/export")["export_id"] for one in (world.tenant, deleted)}
    for one, export in exports.items():
        becomes(lambda path=f"/v1/tenants/{one}/exports/{export}": desk.does("GET", path)["state"], "ready")
    export = exports[world.tenant]
    world.about({"tenant_id": deleted}, "delete_tenant")
    world.about({"tenant_id": shredded}, "shred_tenant_keys")
    elsewhere = {"placement": {"mode": "partitioned"}}
    world.bodies["start_migration"] = elsewhere
    for one, *operations in ((moved, "get_migration", "complete_migration"), (back, "rollback_migration")):
        moves = f"/v1/tenants/{one}/migrations"
        move = desk.does("POST", moves, elsewhere)["migration_id"]
        becomes(lambda path=f"{moves}/{move}": desk.does("GET", path)["state"], "soaking", 60)
        world.about({"tenant_id": one, "migration_id": move}, *operations)
    world.about(mine | {"export_id": export}, "get_tenant_export", "get_tenant_export_content")
    kept, gone = (tenant.does("POST", "/v1/resources", {"n": n})["resource_id"] for n in range(2))
    world.about({"resource_id": kept}, "get_resource", "replace_resource")
    world.about({"resource_id": gone}, "delete_resource")
    limit = {"algorithm": "fixed_window", "capacity": 100, "window_ms": 60_000}
    scope = {"scope": {"tenant": world.tenant, "user": "*", "route": "*"}}
    policy = tenant.does("POST", "/v1/policies", limit | scope)["id"]
    world.bodies["publish_policy"] = limit | {"scope": scope["scope"] | {"route": "/other"}}
    world.about({"policy_id": policy}, "get_policy", "withdraw_policy")
    world.about({"key": f"{world.tenant}:u:/r"}, "get_usage")


def of_desks(world: ApiWorld) -> None:
    desk, tenant, root = world.who["desk"], world.who["tenant"], f"/v1/tenants/{world.tenant}"
    midnight = _NOW.replace(hour=0, minute=0, second=0, microsecond=0)
    time = (_NOW - timedelta(minutes=5)).isoformat()
    span = {"from": (midnight - timedelta(days=2)).isoformat(), "to": midnight.isoformat()}
    event = {"specversion": "1.0", "type": "millrace.usage", "source": "/s", "id": uuid.uuid4().hex, "time": time}
    world.bodies["meter_usage"] = event | {"data": {"dimension": "calls", "quantity": 1}}
    world.queries["get_tenant_usage"] = {"dimension": "calls", **span}
    world.bodies["create_billing_run"] = {
        "from": (midnight - timedelta(days=4)).isoformat(), "to": span["from"], "grace_s": 0
    }  # fmt: skip
    world.bodies["pay_invoice"] = {"payment_method": "tok_sim_approve"}
    world.bodies["adjust_usage"] = {
        "dimension": "calls",
        "quantity": 2,
        "at": (midnight - timedelta(days=9)).isoformat(),
    }
    mine = {"tenant_id": world.tenant}
    world.bodies["adjust_usage"]["unit_price"] = "12.5"
    for days, verbs in ((2, ("get", "pay")), (6, ("void",))):
        period = {
            "from": (midnight - timedelta(days=days)).isoformat(),
            "to": (midnight - timedelta(days=days - 1)).isoformat(),
        }
        used = {
            "dimension": "calls",
            "quantity": 2,
            "at": period["from"],
            "unit_price": "12.5",
            "reason": "unmetered",
        }
        desk.does("POST", f"{root}/usage_adjustments", used)
        run = desk.does("POST", f"{root}/billing_runs", period | {"grace_s": 0})["billing_run_id"]
        world.about(mine | {"billing_run_id": run}, "get_billing_run")
        invoice = eventually(lambda run=run: desk.does("GET", f"{root}/billing_runs/{run}")["invoice_id"])
        world.about({"invoice_id": invoice}, *(f"{verb}_invoice" for verb in verbs))
    world.about(world.objects["get_invoice"], "get_invoice_document", "get_invoice_payment")
    asks, allows = world.who["supporter"], world.who["approver"]
    grants = {
        verb: asks.does("POST", f"{root}/support_grants", {"reason": "a look", "ticket": "T-1"})["grant_id"]
        for verb in ("approve", "deny", "consent", "revoke", "review", "get")
    }
    for verb, grant in grants.items():
        world.about(mine | {"grant_id": grant}, f"{verb}_support_grant")
    for verb in ("consent", "revoke", "review", "get"):
        allows.does("POST", f"{root}/support_grants/{grants[verb]}/approve")
        if verb != "consent":
            tenant.does("POST", f"{root}/support_grants/{grants[verb]}/consent")
    tenant.does("POST", f"{root}/support_grants/{grants['review']}/revoke")
    world.about(mine | {"grant_id": grants["get"]}, "get_support_token")


def of_everybody(world: ApiWorld) -> None:
    http = world.who["gateway"].http
    subject = http.get("/subjects").json()[0]
    found = http.get(f"/subjects/{subject}/versions/latest").json()
    world.about({"subject": subject, "version": "1", "schema_id": str(found["id"])}, "version_of")
    world.about({"subject": subject}, "look_up_schema", "register_schema", "versions", "config_of")
    world.about({"schema_id": str(found["id"])}, "schema_by_id")
    world.bodies |= {name: {"schema": found["schema"]} for name in ("look_up_schema", "register_schema")}
    del world.objects["version_of"]["schema_id"]
    snapshot = eventually(lambda: http.get("/v1/policy_snapshots/newest").headers.get("ETag"))
    world.about({"digest": snapshot.strip('"')}, "get_policy_snapshot_by_digest")
