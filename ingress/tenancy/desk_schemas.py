"""The schemas of usage, billing, support access and isolation: every field that is told (a test compares them)."""

from __future__ import annotations

from typing import Any, Final

from ingress.http.openapi import commands
from ingress.http.openapi.shared import (
    INTEGER,
    INTEGER_OR_NULL,
    OBJECT_ID,
    STRING,
    TEXT_OR_NULL,
    TIME,
    TIME_OR_NULL,
    a_schema,
    array_of,
    list_of,
    page_of,
    ref,
)
from ingress.tenancy.billing.invoice_payment import STATES
from ingress.tenancy.openapi import committed
from schemas.fields.value_types import NOTE
from schemas.tenancy import attribute_names, usage_event
from schemas.tenancy.desk_operations import DESK
from schemas.tenancy.entitlements import KINDS, PERIODS
from schemas.tenancy.value_types import PRICES

Json = dict[str, Any]
_FLAG: Final = {"type": "boolean"}
_SAID_BY_ROUTE: Final = ("person", "grant_id")
_SPAN: Final = {"from": TIME, "to": TIME}
_PRICE: Final = PRICES.json["additionalProperties"]


def components() -> Json:
    """Schemas of what is read, and of what a person sends: who that is stands in the token."""
    payloads = {
        f"{operation.record}Payload": commands.payload(operation, without=_SAID_BY_ROUTE)
        for operation in DESK.values()
        if operation.audited
    }
    return payloads | _of_usage() | _of_billing() | _of_support() | _of_isolation()


def _object(name: str) -> Json:
    return {"object": {"const": name}}


def _of_usage() -> Json:
    data = a_schema({"dimension": STRING, "quantity": {"type": "integer", "minimum": 0}}, closed=True)
    event = a_schema(
        {
            "specversion": {"const": "1.0"},
            "type": {"const": "millrace.usage"},
            "id": STRING,
            "source": STRING,
            "time": TIME,
            "subject": STRING,
            "dataschema": {"type": ["string", "null"], "pattern": usage_event.URI_PATTERN},
            "data": data,
        },
        ["specversion", "type", "id", "source", "time", "data"],
    ) | {"propertyNames": {"pattern": attribute_names.PATTERN}, "additionalProperties": usage_event.EXTENSION}
    group = {"subject": TEXT_OR_NULL, "source": STRING}  # the one that was asked for
    told = {"quantity": INTEGER, "value": {"type": ["integer", "string"]}}  # value: of an aggregation that is no sum
    sums = a_schema(_SPAN | group | told | {"events": INTEGER}, ["from", "to", "events"])
    span = {"from": TIME_OR_NULL, "to": TIME_OR_NULL}  # the billed period that is corrected
    correction = {"entry_id": OBJECT_ID, "quantity": INTEGER, "at": TIME, "reason": STRING, "by": TEXT_OR_NULL}
    corrected = {"corrections": array_of(a_schema(correction | span | {"created_at": TIME}))}  # of an aggregation sum
    total = dict.fromkeys(("metered", "corrected", "corrections", "quantity"), INTEGER)
    corrected |= {"total": a_schema(total)}
    of_event = {"source": STRING, "event_id": STRING, "dimension": STRING, "quantity": INTEGER}
    conflict = _object("usage_conflict") | {"conflict_id": STRING} | of_event
    conflict |= {"subject": TEXT_OR_NULL, "time": TIME, "seen_at": TIME}
    return {
        "UsageEvent": event,
        "UsageAccepted": a_schema({"accepted": INTEGER}),
        "TenantUsage": a_schema({"data": array_of(sums), "as_of": TIME} | corrected, ["data", "as_of"]),
        "UsageDimensionPage": page_of(a_schema({"dimension": STRING, "last_used_at": TIME})),
        "UsageConflict": a_schema(conflict),
        "UsageConflictPage": page_of(ref("UsageConflict")),
    }


def _of_billing() -> Json:
    money = {"currency": STRING, "prices": {"type": "object", "additionalProperties": _PRICE}}
    run = _object("billing_run") | {"billing_run_id": OBJECT_ID, "tenant_id": OBJECT_ID} | _SPAN
    run |= {"grace_s": INTEGER} | money | {"state": STRING, "invoice_id": TEXT_OR_NULL}
    run |= {"by": TEXT_OR_NULL, "person": TEXT_OR_NULL, "created_at": TIME, "version": INTEGER}
    metered = {"dimension": STRING, "quantity": INTEGER, "unit_price": _PRICE, "at": TIME}
    line = {"kind": STRING} | metered | _SPAN | {"events": INTEGER, "amount": INTEGER}
    line |= {"meter_version": INTEGER, "digest": STRING}  # of usage, in invoices that say it
    line |= {"entry_id": OBJECT_ID, "reason": STRING}  # of an adjustment
    invoice = {"invoice_id": OBJECT_ID, "billing_run_id": OBJECT_ID, "tenant_id": OBJECT_ID, "currency": STRING}
    invoice |= _SPAN | {"lines": array_of(a_schema(line, ["kind", "amount"])), "total": INTEGER}
    corrected = metered | {"from": TIME_OR_NULL, "to": TIME_OR_NULL}
    entry = _object("billing_entry") | {"entry_id": OBJECT_ID, "tenant_id": OBJECT_ID, "kind": STRING}
    entry |= {"reason": STRING, "by": TEXT_OR_NULL, "person": TEXT_OR_NULL, "created_at": TIME, "version": INTEGER}
    entries = a_schema(entry | corrected | {"amount": INTEGER}, list(entry))
    amounts = dict.fromkeys(("total", "amount_received", "amount_refunded"), INTEGER)
    paid = _object("invoice_payment") | {"invoice_id": OBJECT_ID, "state": {"enum": list(STATES)}, "currency": STRING}
    paid |= amounts | {"payment_intent": TEXT_OR_NULL, "last_payment_error": TEXT_OR_NULL}
    entitled = a_schema({"tenant_id": OBJECT_ID, "entitlements": {"type": "object"}, "version": INTEGER})
    return {
        "BillingRun": a_schema(run),
        "BillingRunPage": page_of(ref("BillingRun")),
        "CommittedBillingRun": committed(ref("BillingRun")),
        "Invoice": a_schema(invoice, ["invoice_id", "currency", "from", "to", "lines", "total"]),
        "InvoiceMadeAgain": a_schema({"invoice_id": OBJECT_ID, "state": {"const": "running"}}),
        "InvoicePayment": a_schema(paid),
        "BillingEntry": entries,
        "BillingEntryPage": page_of(ref("BillingEntry")),
        "CommittedBillingEntry": committed(ref("BillingEntry")),
        "Entitlement": _feature(),
        "Entitlements": list_of(ref("Entitlement")),
        "CommittedEntitlements": committed(entitled),
    }


def _feature() -> Json:
    """What a tenant may of one kind: ``value``, or what is used and left, at once or in this period."""
    named = {"feature": STRING, "kind": {"enum": list(KINDS)}, "allowed": _FLAG, "version": INTEGER}
    counted = {"dimension": STRING, "limit": INTEGER_OR_NULL, "used": INTEGER, "remaining": INTEGER_OR_NULL}
    counted |= {"soft": _FLAG, "warning": _FLAG, "period": {"enum": list(PERIODS)}}
    return a_schema(named | {"value": {"type": ["boolean", "string"]}} | counted | _SPAN, list(named))


def _of_support() -> Json:
    texts = array_of(STRING)
    asked = a_schema({"duration_s": INTEGER, "masked_fields": texts})
    grant = _object("support_grant") | {"grant_id": OBJECT_ID, "tenant_id": OBJECT_ID, "requester": STRING}
    grant |= {"approvers": texts, "scopes": texts, "masked_fields": texts, "duration_s": INTEGER}
    grant |= {"reason": STRING, "ticket": STRING, "needs_consent": _FLAG, "break_glass": _FLAG, "state": STRING}
    grant |= {"asked": {"anyOf": [asked, {"type": "null"}]}, "created_at": TIME, "version": INTEGER}
    grant |= dict.fromkeys(("consented_by", "ended_by", "not_before", "expires_at"), TEXT_OR_NULL)
    grant |= dict.fromkeys(("reviewed_by", "reviewed_at", "findings"), TEXT_OR_NULL)
    call = {"seq": INTEGER, "at": TIME, "actor": STRING, "grant_id": OBJECT_ID, "action": STRING, "object": STRING}
    call |= {"result": {"enum": ["done", "refused"]}, "unfinished": _FLAG}
    return {
        "SupportGrant": a_schema(grant),
        "SupportGrantPage": page_of(ref("SupportGrant")),
        "CommittedSupportGrant": committed(ref("SupportGrant")),
        "SupportToken": a_schema(_object("support_token") | {"token": STRING, "expires_at": TIME}),
        "SupportCall": a_schema(call),
        "SupportCallPage": page_of(ref("SupportCall")),
    }


def _of_isolation() -> Json:
    mode = a_schema({"on": _FLAG} | dict.fromkeys(("since", "probe", "evidence", "proposed_by"), TEXT_OR_NULL))
    lint = a_schema({"id": STRING, "gaps": INTEGER})
    isolation = {"status": {"enum": ["ok", "violated", "stale"]}, "as_of": TEXT_OR_NULL, "safe_mode": mode}
    isolation |= {"probes": INTEGER, "violations": INTEGER, "lints": array_of(lint)}
    evidence = _object("isolation_evidence") | {"number": INTEGER, "seen_at": TIME, "probe": STRING}
    evidence |= {"evidence": STRING} | dict.fromkeys(("resolved_at", "resolved_by", "note"), TEXT_OR_NULL)
    decided = a_schema({"state": {"enum": ["closed", "proposed", "lifted"]}})
    return {
        "Isolation": a_schema(isolation),
        "IsolationEvidencePage": page_of(a_schema(evidence)),
        "SafeModeNote": a_schema({"note": NOTE.json}, closed=True),
        "SafeModeDecided": a_schema({"result": decided}),
    }
