"""The document of usage, billing, support access and isolation."""

from __future__ import annotations

from typing import Any, Final

from ingress.http.openapi import elements
from ingress.http.openapi.shared import OBJECT_ID, STRING, TIME, ref
from ingress.identity.roles import by_operators
from ingress.tenancy.billing.invoice_payment import CANCEL, CONFIRM
from ingress.tenancy.openapi import read
from ingress.tenancy.usage.sums import AGGREGATIONS, GROUPS, WINDOWS
from schemas.services import OPERATIONS
from schemas.tenancy import limits
from schemas.tenancy.desk_operations import APPROVE, STAFF, SUPPORT, TENANT_ADMIN
from schemas.tenancy.dimension import PATTERN
from schemas.tenancy.operations import READ

Json = dict[str, Any]
_PAGE: Final = (elements.limit(), elements.CURSOR)
_DESK: Final = (STAFF, TENANT_ADMIN)
_GRANTS: Final = (STAFF, SUPPORT, APPROVE, TENANT_ADMIN)
_LATER: Final = {"Retry-After": elements.header("Seconds")}
_ONE: Final = "application/cloudevents+json"
_BATCH: Final = "application/cloudevents-batch+json"


def _of_usage() -> Json:
    return {
        "/v1/usage/events": {"post": _meter()},
        "/v1/usage": read("get_tenant_usage", "Usage", "TenantUsage", scopes=("usage:read",), parameters=_asked()),
        "/v1/usage_dimensions": read(
            "list_usage_dimensions", "What is metered", "UsageDimensionPage", scopes=("usage:read",), parameters=_PAGE
        ),
        "/v1/usage_conflicts": read(
            "list_usage_conflicts", "Contradictions", "UsageConflictPage", scopes=("usage:read",), parameters=_PAGE
        ),
    }


def paths() -> Json:
    """Routes that are no commands."""
    run = "/v1/tenants/{tenant_id}/billing_runs"
    grant = "/v1/tenants/{tenant_id}/support_grants"
    own = ("tenant_id",)
    said = "true: made again from the events and the run's prices"
    recompute = elements.query("recompute", {"enum": ["true", "false"]}, said)
    return _of_usage() | {
        run: read("list_billing_runs", "Runs, newest first", "BillingRunPage", own, scopes=_DESK, parameters=_PAGE),
        f"{run}/{{billing_run_id}}": read(
            "get_billing_run", "A run", "BillingRun", (*own, "billing_run_id"), scopes=_DESK
        ),
        "/v1/tenants/{tenant_id}/billing_entries": read(
            "list_billing_entries", "Corrections and credit", "BillingEntryPage", own, scopes=_DESK, parameters=_PAGE
        ),
        "/v1/tenants/{tenant_id}/entitlements": read(
            "get_tenant_entitlements", "What a tenant may", "Entitlements", own, scopes=_DESK
        ),
        "/v1/entitlements": read("list_entitlements", "What the tenant may", "Entitlements", scopes=(READ,)),
        "/v1/entitlements/{feature}": read(
            "require_entitlement",
            "One feature, if the tenant may now",
            "Entitlement",
            ("feature",),
            scopes=(READ,),
            refusals=("quota_exceeded",),
        ),
        "/v1/invoices/{invoice_id}": read("get_invoice", "An invoice", "Invoice", ("invoice_id",), scopes=_DESK),
        "/v1/invoices/{invoice_id}/document": read(
            "get_invoice_document",
            "Its bytes",
            "Invoice",
            ("invoice_id",),
            scopes=_DESK,
            parameters=(recompute,),
            refusals=("state_conflict",),  # its usage is not kept any more
            accepted=elements.answer("It is being made again: ask again", elements.JSON, "InvoiceMadeAgain", _LATER),
        ),
        "/v1/invoices/{invoice_id}/payment": read(
            "get_invoice_payment", "Whether it is paid", "InvoicePayment", ("invoice_id",), scopes=_DESK
        ),
        "/v1/invoices/{invoice_id}/pay": {"post": _settle("pay_invoice", "Pay an invoice", CONFIRM, TENANT_ADMIN)},
        "/v1/invoices/{invoice_id}/void": {"post": _settle("void_invoice", "Let nobody pay an invoice", CANCEL, STAFF)},
        grant: read(
            "list_support_grants", "Grants, newest first", "SupportGrantPage", own, scopes=_GRANTS, parameters=_PAGE
        ),
        f"{grant}/{{grant_id}}": read(
            "get_support_grant", "A grant", "SupportGrant", (*own, "grant_id"), scopes=_GRANTS
        ),
        f"{grant}/{{grant_id}}/token": {"post": _token()},
        "/v1/audit": read(
            "list_support_calls",
            "What support did",
            "SupportCallPage",
            scopes=(TENANT_ADMIN,),
            parameters=(elements.query("grant_id", OBJECT_ID, "Of one grant"), *_PAGE),
        ),
        "/v1/isolation/lift": {"post": _lift()},
        "/v1/isolation/evidence": read(
            "list_isolation_evidence", "What was found", "IsolationEvidencePage", scopes=(STAFF,), parameters=_PAGE
        ),
        "/v1/isolation": read("get_isolation", "Whether tenants are apart", "Isolation", scopes=(STAFF,)),
    }


def _asked() -> tuple[Json, ...]:
    query = elements.query
    required = {"required": True}
    dimension = {"type": "string", "pattern": f"^{PATTERN}$"}
    return (
        query("dimension", dimension, "What is metered") | required,
        query("from", TIME, "The first instant") | required,
        query("to", TIME, "Behind the last instant") | required,
        query("window", {"enum": list(WINDOWS)}, "Sums by these, cut to the span"),
        query("group", {"enum": list(GROUPS)}, "Sums by these, too"),
        query("timezone", STRING, "IANA name; the tenant's, if it is not said"),
        query("aggregation", {"enum": list(AGGREGATIONS)}, "What is told of the events in place of their sum"),
        query("percentile", {"type": "integer", "minimum": 1, "maximum": 100}, "Of that aggregation"),
    )


def _meter() -> Json:
    event = ref("UsageEvent")
    batch = {"type": "array", "items": event, "minItems": 1, "maxItems": limits.USAGE_EVENTS_MAX}
    codes = (
        *("malformed_request", "too_large", "unsupported_media_type", "invalid_command", "event_too_old"),
        *("tenant_not_active", "overloaded"),
    )
    return {
        "operationId": "meter_usage",
        "summary": "Take all of these events of usage, or none",
        "tags": ["tenancy"],
        "security": [{"bearer": ["usage:write"]}],
        "parameters": [],
        "requestBody": {"required": True, "content": {_ONE: {"schema": event}, _BATCH: {"schema": batch}}},
        "responses": {
            "202": elements.answer("Durable; in sums within seconds", elements.JSON, "UsageAccepted"),
            **elements.refusals((*elements.COMMON, *codes)),
        },
    }


def _settle(operation_id: str, summary: str, name: str, scope: str) -> Json:
    """A command on the intent of an invoice, under the invoice's own route."""
    operation = OPERATIONS[name]
    forms = [ref(f"{operation.record}{form}") for form in ("Command", "Payload")]
    schema = {"description": "The envelope; or, with Idempotency-Key, the bare payload", "anyOf": forms}
    accepted = elements.answer("Accepted, not decided yet", elements.JSON, "Accepted", elements.ACCEPTED_HEADERS)
    committed_ = elements.answer("Committed", elements.JSON, operation.result, elements.COMMITTED_HEADERS)
    return {
        "operationId": operation_id,
        "summary": summary,
        "tags": ["tenancy"],
        "security": [{"bearer": [scope]}],
        "parameters": [elements.object_id("invoice_id"), *elements.COMMAND_HEADERS],
        "requestBody": {"required": True, "content": {elements.JSON: {"schema": schema}}},
        "responses": {
            "200": committed_,
            "202": accepted,
            **elements.refusals(tuple(elements.codes_of(operation))),
        },
    }


def _lift() -> Json:
    said = ref("SafeModeNote")
    codes = ("state_conflict", "too_large", "unsupported_media_type", "invalid_command", "four_eyes_required")
    return {
        "operationId": "lift_isolation",
        "summary": "Propose to lift safe mode, or lift it",
        **by_operators("isolation.lift"),
        "parameters": [],
        "requestBody": {"required": True, "content": {elements.JSON: {"schema": said}}},
        "responses": {
            "200": elements.answer("What safe mode is now", elements.JSON, "SafeModeDecided"),
            **elements.refusals((*elements.COMMON, *codes)),
        },
    }


def _token() -> Json:
    return {
        "operationId": "get_support_token",
        "summary": "What its requester shows while the grant is active",
        "tags": ["tenancy"],
        "security": [{"bearer": [scope]} for scope in (SUPPORT, APPROVE)],
        "parameters": [elements.object_id("tenant_id"), elements.object_id("grant_id")],
        "responses": {
            "201": elements.answer("A tenant's token with the grant's scopes", elements.JSON, "SupportToken"),
            **elements.refusals(
                (*elements.COMMON, "not_found", "grant_inactive", "too_large", "unsupported_media_type")
            ),
        },
    }
