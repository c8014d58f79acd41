"""What is read of tenants has no field that the document does not name."""

from __future__ import annotations

from typing import Any, Final

from dataflows.tenancy.domain import billing_entry, billing_run, support_grant
from dataflows.tenancy.domain.billing_entry import BillingEntry
from dataflows.tenancy.domain.billing_run import BillingRun
from dataflows.tenancy.domain.support_grant import SupportGrant
from ingress import openapi
from ingress.tenancy import isolation_routes, placement_routes, tenant_routes
from ingress.tenancy.billing import entitlements
from ingress.tenancy.support import access
from ingress.tenancy.usage import sums
from schemas.tenancy import invoice, rendering
from tests.each import each

SCHEMAS: Final = openapi.document()["components"]["schemas"]
#: whose members are named by whoever wrote them
FREE: Final = ("quotas", "prices", "payload", "entitlements", "unit_price")
METERED: Final = {"kind": "metered", "dimension": "a", "limit": 5, "soft": True, "period": "month"}
RUN: Final = invoice.Run("br_1", "in_1", "tn_1", "EUR", {"tokens": "0.5"}, 1, 2)
ENTRIES: Final = [
    invoice.Entry("be_1", "adjustment", "tokens", 3, "2", 1, None, None, None, "why"),
    invoice.Entry("be_2", "credit", None, None, None, None, None, None, 1, "why"),
]
USED: Final = [invoice.Used("usage", "tokens", 1, 2, 5, 1, "0.5"), invoice.Used("late_usage", "a", 0, 1, 5, 1, "2")]
GRANT: Final = SupportGrant(
    grant_id="sg_1", tenant_id="tn_1", requester="s_1", reason="why", ticket="T-1", scopes=("resources:read",),
    duration_s=60, state="requested", needs_consent=True, created_at=1, asked_duration_s=90,
)  # fmt: skip
ADJUSTMENT: Final = BillingEntry(
    entry_id="be_1", tenant_id="tn_1", number=1, kind="adjustment", dimension="tokens", quantity=3, unit_price="2",
    at_us=1, reason="why", created_at=1,
)  # fmt: skip
BILLED: Final = BillingRun(
    billing_run_id="br_1", invoice_id="in_1", tenant_id="tn_1", number=1, from_us=1, to_us=2, grace_s=0,
    currency="EUR", prices={"tokens": "0.5"}, created_at=1,
)  # fmt: skip
A_STORE: Final = (None, None, 1, 2, "open", 3, 0, 0)
ASKED: Final = sums.Asked("tokens", 1, 2, "none", "subject", "UTC")
MOVE: Final = dict.fromkeys(
    (
        *("migration_id", "tenant_id", "state", "source", "target", "from_generation", "to_generation"),
        *("rows_per_second", "version", "fenced", "source_digest", "target_digest", "resources", "served_reads"),
    ),
    1,
)


def unnamed(schema: dict[str, Any], value: Any, where: str = "") -> list[str]:
    """The fields of an answer that its schema says nothing of."""
    schema = SCHEMAS[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    schema = schema["anyOf"][0] if "anyOf" in schema else schema
    if where.rpartition(".")[2] in FREE:
        return []
    if isinstance(value, list):
        return [found for one in value for found in unnamed(schema["items"], one, where)]
    if not isinstance(value, dict):
        return []
    named = schema.get("properties", {})
    lost = [f"{where}.{name}" for name in value if name not in named]
    return lost + [f for name in value if name in named for f in unnamed(named[name], value[name], f"{where}.{name}")]


@each(
    "name, told",
    [
        ("BillingRun", billing_run.rendered(BILLED)),
        ("BillingEntry", billing_entry.rendered(ADJUSTMENT)),
        ("SupportGrant", support_grant.rendered(GRANT, 1)),
        ("SupportCall", access._call((1, 1, "s_1", "sg_1", "GET /v1/resources", "", "done"))),
        ("UsageConflict", sums._conflict(("/s", "e1", "tokens", 1, None, 1, 1, "uc_1"))),
        ("TenantUsage", {"data": [sums._row(ASKED, [(1, 2)], (0, "team", 5, 1))], "as_of": ""}),
        ("TenantUsage", sums._explained([{"quantity": 1}], [("be_1", -3, 1, None, None, "r", "m_ops", 1, 1, -3)])),
        ("TenantUsage", {"data": [sums._row(ASKED._replace(aggregation="max"), [(1, 2)], (0, "team", 5, 1))]}),
        ("Invoice", invoice.json.loads(invoice.made(invoice.Basis(RUN, USED, ENTRIES, 0)).document)),
        ("Isolation", isolation_routes._shown((1, 1, 0, [{"id": "keys", "gaps": 0}]), 1)),
        ("IsolationEvidencePage", {"data": [isolation_routes._found((1, 1, "list", "seen", 1, "s_1", "planted"))]}),
        ("Entitlements", {"data": [entitlements._row("f", {"kind": "bool", "value": True}, 0, {})]}),
        (
            "Entitlements",
            {"data": [entitlements._row("f", METERED, 1, {"month": (1, 2)}) | {"version": 1}]},
        ),
        ("Migration", rendering.move_document(MOVE | {"created_at": 1, "updated_at": 1})),
        (
            "TenantExport",
            rendering.export_document(
                {"export_id": "", "tenant_id": "", "state": "", "resources": 0, "sha256": None, "created_at": 1}
            ),
        ),
        ("TenantKeys", tenant_routes.keys_document([(1, "active", 1, 1, 2, 3, 4, 5, None)]) | {"certificate_id": None}),
        ("Quotas", {"data": [{"dimension": "resources", "limit": None, "used": 1}]}),
        ("Placements", {"data": [placement_routes.placement("tenancy_pool", "pooled", True, *A_STORE)]}),
        ("Certificate", {"stores": [{"store": "postgres", "proof": "no row"}]}),
    ],
)
def test_no_field_is_told_that_the_document_does_not_name(name: str, told: dict[str, Any]) -> None:
    assert unnamed(SCHEMAS[name], told) == []
