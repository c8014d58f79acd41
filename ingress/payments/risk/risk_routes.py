"""The routes of risk for operators: the review of a payment, and why the rules said what they said."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.http.parts import parts_of
from ingress.operators import operating
from ingress.operators.audit import Audit
from ingress.payments.risk.assessments import Assessments
from schemas.payments.operations import OPERATIONS

router: Final = APIRouter()


@router.post("/v1/payment_intents/{intent_id}/review")
async def review(request: Request, intent_id: str) -> Response:
    """Approves a payment that waits for it, which is then processed; or rejects it, which cancels it as fraudulent."""
    return await operating.operate(
        request, OPERATIONS["review_payment_intent"], "risk.review", intent_id, person_field="reviewer"
    )


@router.get("/v1/payment_intents/{intent_id}/risk")
async def list_assessments(request: Request, intent_id: str) -> Response:
    """What the rules and operators said of every confirm of a payment."""
    parts = parts_of(request)
    async with parts.get(Audit).operator(request, "risk.read", intent_id):
        calling.require_id(intent_id)
        found = await parts.get(Assessments).of_intent(intent_id)
    return calling.json(found)
