"""The document of usage, billing, support access and isolation."""

from __future__ import annotations

from typing import Any, Final

from ingress.http.openapi import commands, elements
from ingress.http.openapi.shared import INTEGER, OBJECT_ID, STRING, TEXT_OR_NULL, a_schema, page_of, ref
from ingress.identity.roles import by_operators
from ingress.tenancy.billing.invoice_payment import CANCEL, CONFIRM, STATES
from ingress.tenancy.openapi import committed, read
from ingress.tenancy.usage.sums import AGGREGATIONS, GROUPS, WINDOWS
from schemas.fields.value_types import NOTE
from schemas.services import OPERATIONS
from schemas.tenancy import attribute_names, limits
from schemas.tenancy.desk_operations import APPROVE, DESK, STAFF, SUPPORT, TENANT_ADMIN
from schemas.tenancy.dimension import PATTERN
from schemas.tenancy.operations import READ
from schemas.tenancy.value_types import PRICES

Json = dict[str, Any]
_INSTANT: Final = {"type": "string", "format": "date-time"}
_PAGE: Final = (elements.limit(), elements.CURSOR)
_DESK: Final = (STAFF, TENANT_ADMIN)
_GRANTS: Final = (STAFF, SUPPORT, APPROVE, TENANT_ADMIN)
_SAID_BY_ROUTE: Final = ("person", "grant_id")
_LATER: Final = {"Retry-After": elements.header("Seconds")}
_ONE: Final = "application/cloudevents+json"
_BATCH: Final = "application/cloudevents-batch+json"


def paths() -> Json:
    """Routes that are no commands."""
    run = "/v1/tenants/{tenant_id}/billing_runs"
    grant = "/v1/tenants/{tenant_id}/support_grants"
    own = ("tenant_id",)
    said = "true: made again from the events and the run's prices"
    recompute = elements.query("recompute", {"enum": ["true", "false"]}, said)
    return {
        "/v1/usage/events": {"post": _meter()},
        "/v1/usage": read("get_tenant_usage", "Usage", "TenantUsage", scopes=("usage:read",), parameters=_asked()),
        "/v1/usage_conflicts": read(
            "list_usage_conflicts", "Contradictions", "UsageConflictPage", scopes=("usage:read",), parameters=_PAGE
        ),
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
        "/v1/isolation": read("get_isolation", "Whether tenants are apart", "Isolation", scopes=(STAFF,)),
    }


def _asked() -> tuple[Json, ...]:
    query = elements.query
    required = {"required": True}
    dimension = {"type": "string", "pattern": f"^{PATTERN}$"}
    return (
        query("dimension", dimension, "What is metered") | required,
        query("from", _INSTANT, "The first instant") | required,
        query("to", _INSTANT, "Behind the last instant") | required,
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


def components() -> Json:
    """Schemas of what is read, and of what a person sends: who that is stands in the token."""
    data = a_schema({"dimension": STRING, "quantity": {"type": "integer", "minimum": 0}}, closed=True)
    event = a_schema(
        {
            "specversion": {"const": "1.0"},
            "type": {"const": "millrace.usage"},
            "id": STRING,
            "source": STRING,
            "time": _INSTANT,
            "subject": STRING,
            "data": data,
        },
        ["specversion", "type", "id", "source", "time", "data"],
    ) | {"propertyNames": {"pattern": attribute_names.PATTERN}}
    sums = a_schema({"from": _INSTANT, "to": _INSTANT, "events": INTEGER}, ["from", "to", "events"])
    conflict = a_schema({"source": STRING, "event_id": STRING, "seen_at": _INSTANT})
    run = a_schema({"billing_run_id": OBJECT_ID, "state": STRING, "invoice_id": TEXT_OR_NULL})
    of_line = {
        "kind": STRING,
        "dimension": STRING,
        "quantity": INTEGER,
        "unit_price": PRICES.json["additionalProperties"],
    }
    line = a_schema(of_line | {"amount": INTEGER}, ["kind", "amount"])
    entry = a_schema({"entry_id": OBJECT_ID, "kind": STRING, "reason": STRING, "created_at": _INSTANT})
    feature = a_schema({"feature": STRING, "kind": STRING, "allowed": {"type": "boolean"}})
    entitled = a_schema({"tenant_id": OBJECT_ID, "entitlements": {"type": "object"}, "version": INTEGER})
    invoice = a_schema(
        {"invoice_id": OBJECT_ID, "currency": STRING, "lines": {"type": "array", "items": line}, "total": INTEGER}
    )
    amounts = dict.fromkeys(("total", "amount_received", "amount_refunded"), INTEGER)
    named = {"invoice_id": OBJECT_ID, "state": {"enum": list(STATES)}, "currency": STRING}
    paid = a_schema(named | amounts | {"payment_intent": TEXT_OR_NULL, "last_payment_error": TEXT_OR_NULL})
    payloads = {
        f"{operation.record}Payload": commands.payload(operation, without=_SAID_BY_ROUTE)
        for operation in DESK.values()
        if operation.audited
    }
    return (
        payloads
        | _of_support()
        | {
            "UsageEvent": event,
            "UsageAccepted": a_schema({"accepted": INTEGER}),
            "TenantUsage": a_schema({"data": {"type": "array", "items": sums}, "as_of": _INSTANT}),
            "UsageConflict": conflict,
            "UsageConflictPage": page_of(ref("UsageConflict")),
            "BillingRun": run,
            "BillingRunPage": page_of(ref("BillingRun")),
            "CommittedBillingRun": committed(run),
            "Invoice": invoice,
            "InvoiceMadeAgain": a_schema({"invoice_id": OBJECT_ID, "state": {"const": "running"}}),
            "InvoicePayment": paid,
            "BillingEntry": entry,
            "BillingEntryPage": page_of(ref("BillingEntry")),
            "CommittedBillingEntry": committed(entry),
            "Entitlements": a_schema({"data": {"type": "array", "items": feature}}),
            "CommittedEntitlements": committed(entitled),
        }
    )


def _of_support() -> Json:
    """Support access and isolation."""
    of_grant = {"grant_id": OBJECT_ID, "requester": STRING, "state": STRING, "break_glass": {"type": "boolean"}}
    masks = {"type": "array", "items": STRING}
    asked = a_schema({"duration_s": INTEGER, "masked_fields": masks})
    of_grant |= {"duration_s": INTEGER, "masked_fields": masks, "asked": {"anyOf": [asked, {"type": "null"}]}}
    said_of_it = dict.fromkeys(("not_before", "expires_at", "reviewed_by", "reviewed_at", "findings"), TEXT_OR_NULL)
    grant = a_schema(of_grant | said_of_it)
    told = {"result": {"enum": ["done", "refused"]}, "unfinished": {"type": "boolean"}}
    call = a_schema({"seq": INTEGER, "at": _INSTANT, "actor": STRING, "object": STRING} | told)
    mode = a_schema(
        {"on": {"type": "boolean"}} | dict.fromkeys(("since", "probe", "evidence", "proposed_by"), TEXT_OR_NULL)
    )
    counts = {"probes": INTEGER, "violations": INTEGER}
    isolation = a_schema({"status": STRING, "as_of": TEXT_OR_NULL, "safe_mode": mode} | counts)
    decided = a_schema({"state": {"enum": ["closed", "proposed", "lifted"]}})
    return {
        "SupportGrant": grant,
        "SupportGrantPage": page_of(ref("SupportGrant")),
        "CommittedSupportGrant": committed(grant),
        "SupportToken": a_schema({"token": STRING, "expires_at": _INSTANT}),
        "SupportCall": call,
        "SupportCallPage": page_of(ref("SupportCall")),
        "Isolation": isolation,
        "SafeModeNote": a_schema({"note": NOTE.json}, closed=True),
        "SafeModeDecided": a_schema({"result": decided}),
    }
