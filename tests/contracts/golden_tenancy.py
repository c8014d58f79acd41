"""The golden values of the commands and events of tenants."""

from __future__ import annotations

from typing import Any, Final

ENVELOPE: Final[dict[str, Any]] = {
    "request_id": "req_golden",
    "idempotency_key": "schlüssel-1",
    "aggregate_key": "tn_golden",
    "expected_version": None,
    "scope": "tenant:tn_golden",
    "request_hash": bytes(range(32)),
    "trace_id": "0123456789abcdef0123456789abcdef",
    "issued_at": 1_800_000_000_000_001,
    "deadline_at": 0,
    "reply_to": 15,
    "reply_id": 2**63 - 1,
}
_PLACEMENT: Final = {"mode": "dedicated", "region": "eu-1"}
_QUOTAS: Final = {"resources": "100", "tokens": ""}
_SEALED: Final = {"resource_id": "rs_golden", "key_version": 3, "size": 17, "sealed": "AAECAw=="}
_TENANT: Final = {"tier": "enterprise", "timezone": "Asia/Kolkata", "prices": {"calls": "0.25"}, "quotas": _QUOTAS}
_PAYLOADS: Final[dict[str, dict[str, Any]]] = {
    "CreateTenant": {"name": "Äpfel", "placement": _PLACEMENT, "home_currency": "EUR", **_TENANT},
    "ChangeTenant": {"name": None, **_TENANT},
    "SuspendTenant": {"mode": "read_only", "reason": "unpaid"},
    "ResumeTenant": {},
    "OffboardTenant": {"reason": "left"},
    "ExportTenant": {},
    "DeleteTenant": {"reason": "left"},
    "RotateTenantKey": {},
    "ShredTenantKeys": {"reason": "asked for"},
    "StartMigration": {"placement": _PLACEMENT, "rows_per_second": 300},
    "AbortMigration": {"migration_id": "mg_golden"},
    "RollbackMigration": {"migration_id": "mg_golden"},
    "CompleteMigration": {"migration_id": "mg_golden"},
    "CreateResource": _SEALED,
    "ReplaceResource": _SEALED,
    "DeleteResource": {"resource_id": "rs_golden"},
    "CreateBillingRun": {"from": "2026-01-01T00:00:00Z", "to": "2026-02-01T00:00:00+01:00", "grace_s": 3_600},
    "AdjustUsage": {
        "dimension": "tokens",
        "quantity": -1_200,
        "at": "2026-01-03T00:00:00Z",
        "unit_price": None,
        "reason": "metered twice",
    },
    "GrantCredit": {"amount": 5_000, "reason": "an outage"},
    "SetEntitlements": {"entitlements": {"exports": "bool:true", "tokens": "metered:tokens:1000"}},
    "RequestSupportGrant": {
        "reason": "cannot export",
        "ticket": "T-1",
        "scopes": ["resources:read", "usage:read"],
        "duration_s": 1_800,
        "person": "s_1",
        "break_glass": True,
        "masked_fields": ["email", "payload.card"],
        "not_before": "2030-01-01T09:00:00Z",
    },
    "ConsentSupportGrant": {
        "grant_id": "sg_golden",
        "person": "s_2",
        "duration_s": 300,
        "masked_fields": ["payload.phone"],
    },
    "ReviewSupportGrant": {"grant_id": "sg_golden", "person": "s_3", "findings": "as the ticket says"},
    **{f"{verb}SupportGrant": {"grant_id": "sg_golden", "person": "s_2"} for verb in ("Approve", "Deny", "Revoke")},
}
_EVENT: Final[dict[str, Any]] = {
    "event_id": "evt_t0001000000000001",
    "aggregate_key": "tn_golden",
    "event_type": "multi_tenant_saas_committed",
    "schema_version": 1,
    "trace_id": "0123456789abcdef0123456789abcdef",
    "seq": 1,
    "occurred_at": 1_800_000_000_000_001,
    "version": 2,
    "scope": "tenant:tn_golden",
    "operation": "replace_resource",
    "body": {
        "tenant_id": "tn_golden",
        "state": "active",
        "policy_version": 3,
        "generation": 2,
        "resource_id": "rs_golden",
        "resource_version": 2,
        "deleted": False,
        "size": 17,
    },
}


def _signals(name: str) -> dict[str, Any]:
    """Who acts, of what staff does with a tenant or bills it."""
    of_tenants = name.endswith(("Tenant", "Migration", "TenantKey", "TenantKeys", "BillingRun", "Usage", "Credit"))
    return {"signals": {"person": "s_golden"}} if of_tenants else {}


RECORDS: Final[dict[str, dict[str, Any]]] = {
    **{name: ENVELOPE | {"payload": payload} | _signals(name) for name, payload in _PAYLOADS.items()},
    "MultiTenantSaasCommitted": _EVENT,
}
