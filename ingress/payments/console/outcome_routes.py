"""Attempts that a person has: the processor is asked again, or two persons take over an outcome.

All of it through ``ingress.payments.repair.outcomes``; the page says why not, the database refuses it anyway.
"""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ingress.commands.envelope_fields import Fields
from ingress.console import visit as visits
from ingress.operators.cases import Cases
from ingress.payments.console import decision
from ingress.payments.repair.outcomes import Outcomes
from schemas import errors

#: fields of the form that are passed on as they are, when they are not empty
_WORDS: Final = ("status", "currency", "provider_ref", "error_code")
_QUEUES: Final = ("attempts", "unknown")

router: Final = visits.router()


@router.post("/queues/{queue}/{operation_id}/ask")
async def ask_from_queue(request: Request, queue: str, operation_id: str) -> Response:
    """Has a worker ask the processor next; back to the queue."""
    async with decision.deciding(request, "attempt.ask", operation_id) as form:
        if queue not in _QUEUES:
            raise errors.NotFound
        await form.parts.get(Outcomes).ask(operation_id, form.words(["note"]), form.person)
    return decision.to("queues", queue)


@router.post("/cases/{case_id}/ask")
async def ask_from_case(request: Request, case_id: str) -> Response:
    """Has a worker ask the processor about the attempt of a case."""
    async with decision.deciding(request, "attempt.ask", case_id) as form:
        case = await form.parts.get(Cases).get(case_id)
        await form.parts.get(Outcomes).ask(case["reference"], form.words(["note"]), form.person)
    return decision.to("cases", case_id)


@router.post("/cases/{case_id}/outcomes")
async def propose(request: Request, case_id: str) -> Response:
    """Proposes an outcome."""
    async with decision.deciding(request, "attempt.propose_outcome", case_id) as form:
        await form.parts.get(Outcomes).propose(case_id, form.proposal(form.payload(_WORDS)), Fields(), form.person)
    return decision.to("cases", case_id)


@router.post("/cases/{case_id}/outcomes/{outcome_id}/approve")
async def approve(request: Request, case_id: str, outcome_id: str) -> Response:
    """Approves as another person than the author, and tells the owner."""
    await decision.approve(request, Outcomes, "attempt.approve_outcome", outcome_id, case_id)
    return decision.to("cases", case_id)


@router.post("/cases/{case_id}/outcomes/{outcome_id}/reject")
async def reject(request: Request, case_id: str, outcome_id: str) -> Response:
    """Rejects a proposed outcome, or withdraws one's own."""
    await decision.reject(request, Outcomes, "attempt.reject_outcome", outcome_id, case_id)
    return decision.to("cases", case_id)
