"""The routes of attempts that a person has: ask the processor again, or take over an outcome with a second person."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.operators import decisions
from ingress.payments.repair import proposal_calls
from ingress.payments.repair.outcomes import Outcomes

router: Final = APIRouter()


@router.post("/v1/processor_attempts/{operation_id}/ask")
async def ask_processor(request: Request, operation_id: str) -> Response:
    """Has the processor asked what became of an attempt, now; 202, because a worker asks it."""
    async with decisions.deciding(request, "attempt.ask", operation_id) as asked:
        await asked.parts.get(Outcomes).ask(operation_id, asked.body, asked.person)
    return calling.json({"operation_id": operation_id, "status": "asked"}, status=202)


@router.post("/v1/cases/{case_id}/outcomes")
async def propose_outcome(request: Request, case_id: str) -> Response:
    """Proposes the outcome of the attempt that a case is about."""
    async with decisions.deciding(request, "attempt.propose_outcome", case_id) as asked:
        found, known = await asked.parts.get(Outcomes).propose(case_id, asked.body, asked.fields, asked.person)
    return calling.created(found, f"/v1/cases/{case_id}/outcomes/{found['id']}", is_replayed=known)


@router.get("/v1/cases/{case_id}/outcomes")
async def list_outcomes(request: Request, case_id: str) -> Response:
    """The outcomes that were proposed for one case, newest first."""
    async with decisions.looking(request, "attempt.list_outcomes", case_id) as parts:
        return calling.json(await parts.get(Outcomes).of_case(case_id))


@router.get("/v1/cases/{case_id}/outcomes/{outcome_id}")
async def get_outcome(request: Request, case_id: str, outcome_id: str) -> Response:
    """One proposed outcome, and what became of it."""
    return await proposal_calls.show(request, Outcomes, "attempt.read_outcome", outcome_id, case_id)


@router.post("/v1/cases/{case_id}/outcomes/{outcome_id}/approve")
async def approve_outcome(request: Request, case_id: str, outcome_id: str) -> Response:
    """Approves as another person than the author; 202 when the owner has not decided yet."""
    return await proposal_calls.approve(request, Outcomes, "attempt.approve_outcome", outcome_id, case_id)


@router.post("/v1/cases/{case_id}/outcomes/{outcome_id}/reject")
async def reject_outcome(request: Request, case_id: str, outcome_id: str) -> Response:
    """Rejects a proposed outcome, or withdraws one's own; its case waits again."""
    return await proposal_calls.reject(request, Outcomes, "attempt.reject_outcome", outcome_id, case_id)
