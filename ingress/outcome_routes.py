"""The routes of attempts that a person has: ask the processor again, or take over an outcome with a second person."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress import calling, decisions, envelope, operating
from schemas import errors

router: Final = APIRouter()


@router.post("/v1/processor_attempts/{operation_id}/ask")
async def ask_processor(request: Request, operation_id: str) -> Response:
    """Has the processor asked what became of an attempt, now; 202, because a worker asks it."""
    ingress = calling.ingress_of(request)
    async with ingress.audit.operator(request, "attempt.ask", operation_id, audits_itself=True) as caller:
        calling.require_id(operation_id)
        await ingress.outcomes.ask(operation_id, await decisions.body_of(request), operating.person(caller))
    answer = calling.json({"operation_id": operation_id, "status": "asked"})
    answer.status_code = 202
    return answer


@router.post("/v1/cases/{case_id}/outcomes")
async def propose_outcome(request: Request, case_id: str) -> Response:
    """Proposes the outcome of the attempt that a case is about."""
    ingress = calling.ingress_of(request)
    async with ingress.audit.operator(request, "attempt.propose_outcome", case_id, audits_itself=True) as caller:
        calling.require_id(case_id)
        fields = envelope.header_fields(request.headers)
        person, body = operating.person(caller), await decisions.body_of(request)
        found = await ingress.outcomes.propose(case_id, body, fields, person)
    location = f"/v1/cases/{case_id}/outcomes/{found['id']}"
    answer = calling.json(found, calling.NO_STORE | {"Location": location})
    answer.status_code = 201
    return answer


@router.get("/v1/cases/{case_id}/outcomes")
async def list_outcomes(request: Request, case_id: str) -> Response:
    """The outcomes that were proposed for one case, newest first."""
    ingress = calling.ingress_of(request)
    async with ingress.audit.operator(request, "attempt.list_outcomes", case_id):
        calling.require_id(case_id)
        found = await ingress.outcomes.of_case(case_id)
    return calling.json(found)


@router.get("/v1/cases/{case_id}/outcomes/{outcome_id}")
async def get_outcome(request: Request, case_id: str, outcome_id: str) -> Response:
    """One proposed outcome, and what became of it."""
    ingress = calling.ingress_of(request)
    async with ingress.audit.operator(request, "attempt.read_outcome", outcome_id):
        calling.require_id(case_id)
        calling.require_id(outcome_id)
        found = await ingress.outcomes.get(case_id, outcome_id)
    return calling.json(found)


@router.post("/v1/cases/{case_id}/outcomes/{outcome_id}/approve")
async def approve_outcome(request: Request, case_id: str, outcome_id: str) -> Response:
    """Approves as another person than the author; 202 when the owner has not decided yet."""
    ingress = calling.ingress_of(request)
    async with ingress.audit.operator(request, "attempt.approve_outcome", outcome_id, audits_itself=True) as caller:
        calling.require_id(case_id)
        calling.require_id(outcome_id)
        if await decisions.body_of(request):
            raise errors.MalformedRequest("An approval has no body: what was proposed is what is approved.")
        found = await ingress.outcomes.approve(case_id, outcome_id, operating.person(caller))
    answer = calling.json(found)
    answer.status_code = 202 if found["state"] == "approved" else 200
    return answer


@router.post("/v1/cases/{case_id}/outcomes/{outcome_id}/reject")
async def reject_outcome(request: Request, case_id: str, outcome_id: str) -> Response:
    """Rejects a proposed outcome, or withdraws one's own; its case waits again."""
    ingress = calling.ingress_of(request)
    async with ingress.audit.operator(request, "attempt.reject_outcome", outcome_id, audits_itself=True) as caller:
        calling.require_id(case_id)
        calling.require_id(outcome_id)
        person, body = operating.person(caller), await decisions.body_of(request)
        found = await ingress.outcomes.reject(case_id, outcome_id, body, person)
    return calling.json(found)
