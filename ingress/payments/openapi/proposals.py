"""What every kind of proposal has in the OpenAPI document: it is shown, approved by a second person, or rejected."""

from __future__ import annotations

from typing import Any, Final

from ingress.http.openapi import elements, shared
from ingress.http.openapi.shared import TEXT_OR_NULL, TIME, TIME_OR_NULL
from ingress.identity.roles import by_operators
from schemas import limits
from schemas.fields.legible_text import SAYS_SOMETHING

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
KEY: Final = elements.parameter("Idempotency-Key", shared.IDEMPOTENCY_KEY, "The body is the bare payload")
NOTE: Final[Json] = {
    "type": "string",
    "minLength": 1,
    "maxLength": limits.NOTE_LENGTH_MAX,
    "pattern": SAYS_SOMETHING,
}
#: what every proposal tells of its decision
DECIDED: Final[Json] = {
    "proposed_at": TIME,
    "decided_by": TEXT_OR_NULL,
    "decided_at": TIME_OR_NULL,
    "decision_note": TEXT_OR_NULL,
}


def decided(
    one: str,
    noun: str,
    ids: list[Json],
    found: Json,
    actions: tuple[str, str],
    *,
    shows: str,
    approves: str = "Approve as another person than the author",
    approved: Json | None = None,
    rejected: Json | None = None,
) -> Json:
    """The routes of ``proposal_calls`` for one proposal. ``actions``: to approve, to reject.

    Both answer as a read does (``found``), unless ``approved`` and ``rejected`` say otherwise.
    """
    approve, reject = actions
    rejects = "Reject, or withdraw one's own"
    approved, rejected = _said_again(approved or found), _said_again(rejected or found)
    return {
        one: {"get": call(f"get_{noun}", shows, ids, found)},
        f"{one}/approve": {"post": call(f"approve_{noun}", approves, ids, approved, action=approve)},
        f"{one}/reject": {"post": call(f"reject_{noun}", rejects, ids, rejected, "RepairDecision", action=reject)},
    }


def _said_again(responses: Json) -> Json:
    return {status: answer | {"headers": elements.REPLAYED_HEADERS} for status, answer in responses.items()}


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
        forms = [shared.ref(body)]
        if KEY in parameters:
            envelope = {"idempotency_key": shared.IDEMPOTENCY_KEY, "payload": forms[0]}
            forms.append(shared.a_schema(envelope, closed=True))
        required = body != "RepairDecision"
        made["requestBody"] = {"required": required, "content": {elements.JSON: {"schema": {"anyOf": forms}}}}
    return made
