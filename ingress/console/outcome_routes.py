"""Attempts that a person has: the processor is asked again, or two persons take over an outcome.

All of it through ``ingress.outcomes``; the page says why not, the database refuses it anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ingress import calling, operating
from ingress.console import pages
from ingress.console import visit as visits
from ingress.console.repair_routes import minor
from ingress.envelope import Fields
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

#: fields of the form that are passed on as they are, when they are not empty
_WORDS: Final = ("status", "currency", "provider_ref", "error_code")
_QUEUES: Final = ("attempts", "unknown")

router: Final = visits.router()


@router.post("/queues/{queue}/{operation_id}/ask")
async def ask_from_queue(request: Request, queue: str, operation_id: str) -> Response:
    """Has a worker ask the processor next; back to the queue."""
    async with visits.deciding(request, "attempt.ask", operation_id) as (visit, fields):
        if queue not in _QUEUES:
            raise errors.NotFound
        calling.require_id(operation_id)
        await _ask(visit, operation_id, fields)
    return RedirectResponse(f"/console/queues/{queue}", 303, pages.HEADERS)


@router.post("/cases/{case_id}/ask")
async def ask_from_case(request: Request, case_id: str) -> Response:
    """Has a worker ask the processor about the attempt of a case."""
    async with visits.deciding(request, "attempt.ask", case_id) as (visit, fields):
        calling.require_id(case_id)
        case = await calling.ingress_of(request).cases.get(case_id)
        await _ask(visit, case["reference"], fields)
    return _to(case_id)


@router.post("/cases/{case_id}/outcomes")
async def propose(request: Request, case_id: str) -> Response:
    """Proposes an outcome; the form's own key makes a second press the same proposal."""
    async with visits.deciding(request, "attempt.propose_outcome", case_id) as (visit, fields):
        calling.require_id(case_id)
        body = {"idempotency_key": fields.get("key", ""), "payload": _payload(fields)}
        person = operating.person(visit.who.caller())
        await calling.ingress_of(request).outcomes.propose(case_id, body, Fields(), person)
    return _to(case_id)


@router.post("/cases/{case_id}/outcomes/{outcome_id}/approve")
async def approve(request: Request, case_id: str, outcome_id: str) -> Response:
    """Approves as another person than the author, and tells the owner."""
    async with visits.deciding(request, "attempt.approve_outcome", outcome_id) as (visit, _):
        calling.require_id(case_id)
        calling.require_id(outcome_id)
        person = operating.person(visit.who.caller())
        await calling.ingress_of(request).outcomes.approve(case_id, outcome_id, person)
    return _to(case_id)


@router.post("/cases/{case_id}/outcomes/{outcome_id}/reject")
async def reject(request: Request, case_id: str, outcome_id: str) -> Response:
    """Rejects a proposed outcome, or withdraws one's own."""
    async with visits.deciding(request, "attempt.reject_outcome", outcome_id) as (visit, fields):
        calling.require_id(case_id)
        calling.require_id(outcome_id)
        outcomes, person = calling.ingress_of(request).outcomes, operating.person(visit.who.caller())
        await outcomes.reject(case_id, outcome_id, _note(fields), person)
    return _to(case_id)


async def _ask(visit: visits.Visit, operation_id: str, fields: Mapping[str, str]) -> None:
    person = operating.person(visit.who.caller())
    await calling.ingress_of(visit.request).outcomes.ask(operation_id, _note(fields), person)


def _note(fields: Mapping[str, str]) -> dict[str, Any]:
    note = fields.get("note", "").strip()
    return {"note": note} if note else {}


def _payload(fields: Mapping[str, str]) -> dict[str, Any]:
    """The payload of a proposal from a form: empty fields are silent, the amount is a decimal of its currency."""
    payload: dict[str, Any] = {name: fields[name].strip() for name in _WORDS if fields.get(name, "").strip()}
    if amount := fields.get("amount", "").strip():
        payload["amount"] = minor(amount, payload.get("currency", ""))
    return payload | {"note": fields.get("note", "").strip()}


def _to(case_id: str) -> Response:
    return RedirectResponse(f"/console/cases/{case_id}", 303, pages.HEADERS)
