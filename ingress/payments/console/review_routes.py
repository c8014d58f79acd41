"""The review of a payment's risk: an operator's yes or no, on the way of ``POST /v1/payment_intents/{id}/review``."""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.commands.envelope_fields import Fields
from ingress.console import visit as visits
from ingress.http.parts import parts_of
from ingress.operators import operating
from schemas import errors
from schemas.payments.operations import OPERATIONS

_OPERATION: Final = OPERATIONS["review_payment_intent"]

router: Final = visits.router()


@router.post("/queues/review/{intent_id}")
async def review(request: Request, intent_id: str) -> Response:
    """Approves or rejects; a second press of the same form is the same decision. Raises StateConflict when refused."""
    async with visits.deciding(request, "risk.review", intent_id) as (visit, fields):
        payload = {"decision": fields.get("decision", "")}
        if note := fields.get("note", "").strip():
            payload["note"] = note
        terms, _ = calling.terms(request)
        answer, _ = await operating.carry_out(
            parts_of(request),
            visit.who.caller(),
            _OPERATION,
            "risk.review",
            intent_id,
            msgspec.json.encode({"payload": payload}),
            Fields(idempotency_key=fields.get("key", "")),
            terms,
            person_field="reviewer",
        )
    if answer.code is not None:  # audited with the command: not once more
        raise errors.StateConflict(msgspec.json.decode(answer.body)["detail"])
    return visits.go(f"/console/story/{intent_id}")
