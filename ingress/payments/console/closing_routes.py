"""Cases that need no money: closed with a reason, by a second person where it concerns money, and opened again.

All of it through ``ingress.payments.repair.closings``; the page says why not, the database refuses it anyway.
"""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ingress.commands.envelope_fields import Fields
from ingress.console import visit as visits
from ingress.payments.console import decision
from ingress.payments.repair.closings import Closings

router: Final = visits.router()


@router.post("/cases/{case_id}/closings")
async def close(request: Request, case_id: str) -> Response:
    """Closes, or proposes to."""
    async with decision.deciding(request, "case.close", case_id) as form:
        body = form.proposal({"reason": form.fields.get("reason", ""), "note": form.word("note")})
        await form.parts.get(Closings).propose(case_id, body, Fields(), form.person)
    return decision.to("cases", case_id)


@router.post("/cases/{case_id}/closings/{closing_id}/approve")
async def approve(request: Request, case_id: str, closing_id: str) -> Response:
    """Closes as another person than the author."""
    await decision.approve(request, Closings, "case.close", closing_id, case_id)
    return decision.to("cases", case_id)


@router.post("/cases/{case_id}/closings/{closing_id}/reject")
async def reject(request: Request, case_id: str, closing_id: str) -> Response:
    """Rejects a proposed closing, or withdraws one's own."""
    await decision.reject(request, Closings, "case.reject_closing", closing_id, case_id)
    return decision.to("cases", case_id)


@router.post("/cases/{case_id}/reopen")
async def reopen(request: Request, case_id: str) -> Response:
    """A case that a person closed waits again."""
    async with decision.deciding(request, "case.reopen", case_id) as form:
        await form.parts.get(Closings).reopen(case_id, {"note": form.word("note")}, form.person)
    return decision.to("cases", case_id)
