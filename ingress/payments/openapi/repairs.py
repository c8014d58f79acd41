"""The repairs of the OpenAPI document: proposals, decisions, and what they look like."""

from __future__ import annotations

from typing import Any, Final

from ingress.http import openapi_elements as elements
from ingress.http import openapi_schemas
from ingress.http.openapi_schemas import STRING, TEXT_OR_NULL, TIME, TIME_OR_NULL
from ingress.identity.roles import by_operators
from schemas import limits
from schemas.payments import limits as payments_limits
from schemas.payments import repair

Json = dict[str, Any]

_REFUSED: Final = (
    *elements.COMMON,
    "malformed_request",
    "not_found",
    "state_conflict",
    "too_large",
    "unsupported_media_type",
    "invalid_command",
)
KEY: Final = elements.parameter("Idempotency-Key", openapi_schemas.IDEMPOTENCY_KEY, "The body is the bare payload")
_NUMBER: Final[Json] = {"type": "integer"}
NOTE: Final[Json] = {
    "type": "string",
    "minLength": 1,
    "maxLength": payments_limits.REPAIR_NOTE_LENGTH_MAX,
    "pattern": r"^[^\u0000-\u001f\u007f]*[^\u0000-\u0020\u007f][^\u0000-\u001f\u007f]*$",
}
_SIDE: Final[Json] = {"enum": [*repair.SIDES, None]}


def paths() -> Json:
    """Every route of ``repair_routes``."""
    case, found = elements.object_id("case_id"), elements.object_id("repair_id")
    proposed = {"201": elements.answer("Proposed, with its preview", elements.JSON, "Repair")}
    decided = {"200": elements.answer("Decided", elements.JSON, "Repair")}
    posted = {
        "200": elements.answer("Posted, or refused by its owner", elements.JSON, "Repair"),
        "202": elements.answer("Approved, not posted yet: approve again or wait", elements.JSON, "Repair"),
    }
    read = {"200": elements.answer("The repair", elements.JSON, "Repair")}
    listed = {"200": elements.answer("Newest first", elements.JSON, "Repairs")}
    return {
        "/v1/cases/{case_id}/proposals": {
            "get": call("list_repairs", "The proposals of a case", [case], listed),
            "post": call(
                "propose_repair",
                "Propose a ledger transaction",
                [case, KEY],
                proposed,
                "RepairProposal",
                action="repair.propose",
            ),
        },
        "/v1/repairs/{repair_id}": {"get": call("get_repair", "One repair", [found], read)},
        "/v1/repairs/{repair_id}/approve": {
            "post": call(
                "approve_repair", "Approve as another person than the author", [found], posted, action="repair.approve"
            )
        },
        "/v1/repairs/{repair_id}/reject": {
            "post": call(
                "reject_repair",
                "Reject, or withdraw one's own",
                [found],
                decided,
                "RepairDecision",
                action="repair.reject",
            )
        },
        "/v1/repairs/{repair_id}/reverse": {
            "post": call(
                "reverse_repair",
                "Propose the mirror image",
                [found, KEY],
                proposed,
                "RepairReversal",
                action="repair.reverse",
            )
        },
    }


def call(
    operation_id: str,
    summary: str,
    parameters: list[Json],
    responses: Json,
    body: str | None = None,
    *,
    action: str = "case.read",
) -> Json:
    """One call of an operator, by default one that reads; where it takes an identity, its body may be an envelope."""
    made: Json = {
        "operationId": operation_id,
        "summary": summary,
        **by_operators(action),
        "parameters": parameters,
        "responses": responses | elements.refusals(_REFUSED),
    }
    if body is not None:
        forms = [openapi_schemas.ref(body)]
        if KEY in parameters:
            envelope = {"idempotency_key": openapi_schemas.IDEMPOTENCY_KEY, "payload": forms[0]}
            forms.append(openapi_schemas.a_schema(envelope, closed=True))
        required = body != "RepairDecision"
        made["requestBody"] = {"required": required, "content": {elements.JSON: {"schema": {"anyOf": forms}}}}
    return made


def components() -> dict[str, Json]:
    """The schemas of repairs."""
    amount = {"type": "integer", "minimum": 0, "maximum": limits.AMOUNT_MINOR_MAX}
    entry = {"account_id": STRING, "debit": amount, "credit": amount, "currency": STRING}
    entries = {"type": "array", "items": openapi_schemas.a_schema(entry, closed=True)}
    given = entries | {"minItems": 2, "maxItems": payments_limits.JOURNAL_ENTRIES_MAX}
    account = openapi_schemas.a_schema(
        {"account_id": STRING, "currency": STRING, "before": _NUMBER, "change": _NUMBER, "after": _NUMBER}
    )
    a_repair = {
        "id": STRING,
        "object": {"const": "repair"},
        "case_id": STRING,
        "template": STRING,
        "entries": entries,
        "note": STRING,
        "author": STRING,
        "reverses": TEXT_OR_NULL,
        "reversed_by": TEXT_OR_NULL,
        "state": {"enum": ["proposed", "approved", "rejected", "posted", "refused"]},
        "preview": {"type": "array", "items": account},
        "proposed_at": TIME,
        "decided_by": TEXT_OR_NULL,
        "decided_at": TIME_OR_NULL,
        "decision_note": TEXT_OR_NULL,
        "txn_id": TEXT_OR_NULL,
        "refusal": TEXT_OR_NULL,
        "posted_at": TIME_OR_NULL,
        "reference": STRING,
    }
    payload = {
        "template": {"enum": [*repair.TEMPLATES, None]},
        "entries": {"anyOf": [given, {"type": "null"}]},
        "amount": {"anyOf": [openapi_schemas.AMOUNT, {"type": "null"}]},
        "currency": TEXT_OR_NULL,
        "account": TEXT_OR_NULL,
        "processor": TEXT_OR_NULL,
        "side": _SIDE,
        "reference": TEXT_OR_NULL,
        "note": NOTE,
    }
    return {
        "Repair": openapi_schemas.a_schema(a_repair),
        "Repairs": openapi_schemas.a_schema({"data": {"type": "array", "items": openapi_schemas.ref("Repair")}}),
        "RepairProposal": openapi_schemas.a_schema(payload, ["note"], closed=True),
        "RepairDecision": openapi_schemas.a_schema({"note": {"anyOf": [NOTE, {"type": "null"}]}}, [], closed=True),
        "RepairReversal": openapi_schemas.a_schema({"note": NOTE}, closed=True),
    }
