"""Cases that need no money: closed with a reason, by a second person where it concerns money, and opened again.

All of it through ``ingress.closings``; the page says why not, the database refuses it anyway.
"""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ingress import calling, operating
from ingress.console import pages
from ingress.console import visit as visits
from ingress.envelope import Fields

router: Final = visits.router()


@router.post("/cases/{case_id}/closings")
async def close(request: Request, case_id: str) -> Response:
    """Closes, or proposes to; the form's own key makes a second press the same closing."""
    async with visits.deciding(request, "case.close", case_id) as (visit, fields):
        calling.require_id(case_id)
        payload = {"reason": fields.get("reason", ""), "note": fields.get("note", "").strip()}
        body = {"idempotency_key": fields.get("key", ""), "payload": payload}
        person = operating.person(visit.who.caller())
        await calling.ingress_of(request).closings.propose(case_id, body, Fields(), person)
    return _to(case_id)


@router.post("/cases/{case_id}/closings/{closing_id}/approve")
async def approve(request: Request, case_id: str, closing_id: str) -> Response:
    """Closes as another person than the author."""
    async with visits.deciding(request, "case.close", case_id) as (visit, _):
        calling.require_id(case_id)
        calling.require_id(closing_id)
        person = operating.person(visit.who.caller())
        await calling.ingress_of(request).closings.approve(case_id, closing_id, person)
    return _to(case_id)


@router.post("/cases/{case_id}/closings/{closing_id}/reject")
async def reject(request: Request, case_id: str, closing_id: str) -> Response:
    """Rejects a proposed closing, or withdraws one's own."""
    async with visits.deciding(request, "case.reject_closing", case_id) as (visit, fields):
        calling.require_id(case_id)
        calling.require_id(closing_id)
        note = fields.get("note", "").strip()
        closings, person = calling.ingress_of(request).closings, operating.person(visit.who.caller())
        await closings.reject(case_id, closing_id, {"note": note} if note else {}, person)
    return _to(case_id)


@router.post("/cases/{case_id}/reopen")
async def reopen(request: Request, case_id: str) -> Response:
    """A case that a person closed waits again."""
    async with visits.deciding(request, "case.reopen", case_id) as (visit, fields):
        calling.require_id(case_id)
        body = {"note": fields.get("note", "").strip()}
        person = operating.person(visit.who.caller())
        await calling.ingress_of(request).closings.reopen(case_id, body, person)
    return _to(case_id)


def _to(case_id: str) -> Response:
    return RedirectResponse(f"/console/cases/{case_id}", 303, pages.HEADERS)
