"""The operations of the desk of a tenant: billing runs, and grants of support access. Their aggregate is the tenant.

What a person answers for has a route of its own, which says who that is: only a token names a person.
"""

from __future__ import annotations

from typing import Any, Final

from schemas.fields.validation import Field, ValueType
from schemas.fields.value_types import AMOUNT, BOOLEAN, ID, NOTE, SIGNED_AMOUNT, TEXT, whole
from schemas.operation import Named, Operation
from schemas.senders import PUBLISHER
from schemas.tenancy import dimension, field_masks, limits, pricing
from schemas.tenancy.entitlements import ENTITLEMENTS, texts_of
from schemas.tenancy.instants import fault, parsed
from schemas.tenancy.operations import ACTS

STAFF: Final = "tenants:admin"
SUPPORT: Final = "support"
APPROVE: Final = "support:approve"
TENANT_ADMIN: Final = "tenant:admin"
CREATE_BILLING_RUN: Final = "create_billing_run"
ADJUST_USAGE: Final = "adjust_usage"
GRANT_CREDIT: Final = "grant_credit"
SET_ENTITLEMENTS: Final = "set_entitlements"
REQUEST_SUPPORT_GRANT: Final = "request_support_grant"
#: after which support may see more than before
OPENS_A_GRANT: Final = (REQUEST_SUPPORT_GRANT, "approve_support_grant", "consent_support_grant")
#: what a grant may allow
WRITES: Final = "resources:write"
GRANTED_SCOPES: Final = ("resources:read", WRITES, "usage:read")
_SERVICE: Final = "tenancy"
_TENANT: Final = "/v1/tenants/{id}"
_GRANT: Final = f"{_TENANT}/support_grants/{{grant_id}}"


def _instant(value: object) -> str | None:
    if parsed(value) is not None:
        return None
    return fault(value, "must be an RFC 3339 time with its zone, such as 2026-01-02T03:04:05Z")


def _scopes(value: object) -> str | None:
    is_list = isinstance(value, list) and value and all(scope in GRANTED_SCOPES for scope in value)
    return None if is_list else f"must be a list of {', '.join(GRANTED_SCOPES)}"


def _tenant(named: Named) -> str:
    return named.path_id or ""


def _dimension(value: object) -> str | None:
    return None if dimension.is_dimension(value) else dimension.FAULT


def _within_bounds(payload: dict[str, Any]) -> list[dict[str, str]]:
    """Who breaks the glass does so now and for a short time; who does not see a field does not write over it."""
    if payload["masked_fields"] and WRITES in payload["scopes"]:
        return [{"field": "payload.masked_fields", "reason": f"must not be said with {WRITES}: it would write unseen"}]
    if payload["break_glass"] and payload["not_before"] is not None:
        return [{"field": "payload.not_before", "reason": "must not be said with break_glass: an emergency is now"}]
    if not payload["break_glass"] or payload["duration_s"] <= limits.BREAK_GLASS_MAX_S:
        return []
    return [{"field": "payload.duration_s", "reason": f"must be at most {limits.BREAK_GLASS_MAX_S} with break_glass"}]


def _price(value: object) -> str | None:
    return None if isinstance(value, str) and pricing.PRICE.fullmatch(value) else "must be a decimal text"


DIMENSION: Final = ValueType(_dimension, "string", {"type": "string", "pattern": f"^{dimension.PATTERN}$"})
PRICE: Final = ValueType(_price, "string", {"type": "string", "pattern": r"^(0|[1-9][0-9]{0,11})(\.[0-9]{1,12})?$"})
INSTANT: Final = ValueType(_instant, "string", {"type": "string", "format": "date-time"})
SCOPES: Final = ValueType(
    _scopes,
    {"type": "array", "items": "string"},
    {"type": "array", "items": {"enum": list(GRANTED_SCOPES)}, "minItems": 1},
)
MASKS: Final = ValueType(
    field_masks.why_not,
    {"type": "array", "items": "string"},
    {
        "type": "array",
        "items": {"type": "string", "pattern": field_masks.PATTERN},
        "minItems": 1,
        "maxItems": limits.MASKS_MAX,
    },
)
_SECONDS: Final = whole(limits.SUPPORT_GRANT_MIN_S, limits.SUPPORT_GRANT_MAX_S)
_PERSON: Final = {"person": Field(TEXT, "who does it: the token's subject")}


def _on_grant(verb: str, record: str, scope: str, summary: str, **more: Field) -> Operation:
    return Operation(
        name=f"{verb}_support_grant",
        service=_SERVICE,
        method="POST",
        path=f"{_GRANT}/{verb}",
        record=record,
        payload={"grant_id": Field(ID, "the grant"), **_PERSON, **more},
        aggregate=_tenant,
        result_id="grant_id",
        summary=summary,
        result="CommittedSupportGrant",
        scope=scope,
        refusals=("state_conflict", "four_eyes_required"),
        id_name="tenant_id",
        audited=True,
        senders=(PUBLISHER,),
    )


DESK_OPERATIONS: Final = (
    Operation(
        name=CREATE_BILLING_RUN,
        service=_SERVICE,
        method="POST",
        path=f"{_TENANT}/billing_runs",
        record="CreateBillingRun",
        payload={
            "from": Field(INSTANT, "where the period begins"),
            "to": Field(INSTANT, "where it ends: that instant is not in it"),
            "grace_s": Field(whole(0, limits.BILLING_GRACE_MAX_S), "how long late usage is waited for", default=3_600),
        },
        creates="br",
        aggregate=_tenant,
        result_id="billing_run_id",
        summary="Bill a period of a tenant, once",
        result="CommittedBillingRun",
        scope=STAFF,
        refusals=("state_conflict",),
        signals=ACTS,
        id_name="tenant_id",
    ),
    Operation(
        name=ADJUST_USAGE,
        service=_SERVICE,
        method="POST",
        path=f"{_TENANT}/usage_adjustments",
        record="AdjustUsage",
        payload={
            "dimension": Field(DIMENSION, "of what was metered"),
            "quantity": Field(SIGNED_AMOUNT, "how much more, or less, than was metered; not 0"),
            "at": Field(INSTANT, "when that was used: it names the period that is corrected"),
            "unit_price": Field(
                PRICE,
                "at which it is corrected; null = at which its period was billed, or the tenant's where it is not yet; "
                "must be said where that is not one for each unit",
                None,
                nullable=True,
            ),
            "reason": Field(NOTE, "why; it stands on the invoice"),
        },
        creates="be",
        read_at="",  # among the entries of its tenant
        aggregate=_tenant,
        result_id="entry_id",
        summary="Correct usage by a line of the tenant's next invoice",
        result="CommittedBillingEntry",
        scope=STAFF,
        refusals=("state_conflict",),
        signals=ACTS,
        id_name="tenant_id",
    ),
    Operation(
        name=GRANT_CREDIT,
        service=_SERVICE,
        method="POST",
        path=f"{_TENANT}/credits",
        record="GrantCredit",
        payload={
            "amount": Field(AMOUNT, "minor units of the tenant's currency"),
            "reason": Field(NOTE, "why, for people"),
        },
        creates="be",
        read_at="",  # among the entries of its tenant
        aggregate=_tenant,
        result_id="entry_id",
        summary="Give a tenant credit, which its next invoices take off",
        result="CommittedBillingEntry",
        scope=STAFF,
        refusals=("state_conflict",),
        signals=ACTS,
        id_name="tenant_id",
    ),
    Operation(
        name=SET_ENTITLEMENTS,
        service=_SERVICE,
        method="PUT",
        path=f"{_TENANT}/entitlements",
        record="SetEntitlements",
        payload={"entitlements": Field(ENTITLEMENTS, "all of them, by feature", normal=texts_of)},
        aggregate=_tenant,
        result_id="tenant_id",
        summary="Say what a tenant may",
        result="CommittedEntitlements",
        scope=STAFF,
        refusals=("state_conflict",),
        id_name="tenant_id",
    ),
    Operation(
        name=REQUEST_SUPPORT_GRANT,
        service=_SERVICE,
        method="POST",
        path=f"{_TENANT}/support_grants",
        record="RequestSupportGrant",
        payload={
            "reason": Field(NOTE, "why, for people"),
            "ticket": Field(NOTE, "what it is about"),
            "scopes": Field(SCOPES, "what it shall allow", default=["resources:read"]),
            "duration_s": Field(
                _SECONDS,
                "for how long, from when it is active",
                default=limits.SUPPORT_GRANT_DEFAULT_S,
            ),
            **_PERSON,
            "break_glass": Field(
                BOOLEAN,
                "true: an emergency. Two others approve, the tenant is told and not asked, and somebody reviews it",
                default=None,
                nullable=True,
                since=2,
            ),
            "masked_fields": Field(
                MASKS,
                "fields that no answer under it has: a name (email), or names with dots (payload.email); null = none",
                default=None,
                nullable=True,
                since=3,
            ),
            "not_before": Field(
                INSTANT,
                "before which nothing is answered under it, and from which its time counts then; null = none",
                default=None,
                nullable=True,
                since=4,
            ),
        },
        creates="sg",
        together=_within_bounds,
        aggregate=_tenant,
        result_id="grant_id",
        summary="Ask for access to a tenant",
        result="CommittedSupportGrant",
        scope=SUPPORT,
        refusals=("state_conflict",),
        id_name="tenant_id",
        audited=True,
        senders=(PUBLISHER,),
    ),
    _on_grant("approve", "ApproveSupportGrant", APPROVE, "Approve what another person asked for"),
    _on_grant("deny", "DenySupportGrant", APPROVE, "Refuse it"),
    _on_grant(
        "consent",
        "ConsentSupportGrant",
        TENANT_ADMIN,
        "Consent as the tenant, to all of it or to less",
        duration_s=Field(
            _SECONDS, "for how long, where that is less than asked; null = as asked", None, nullable=True, since=2
        ),
        masked_fields=Field(
            MASKS, "fields that no answer has, beside those that it masks; null = no more", None, nullable=True, since=2
        ),
    ),
    _on_grant("revoke", "RevokeSupportGrant", TENANT_ADMIN, "End it at once"),
    _on_grant(
        "review",
        "ReviewSupportGrant",
        APPROVE,
        "Say what it was used for, when it is over",
        findings=Field(NOTE, "what was found, for people"),
    ),
)
DESK: Final = {operation.name: operation for operation in DESK_OPERATIONS}
