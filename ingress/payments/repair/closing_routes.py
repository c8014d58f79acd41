"""The routes that close cases and open them again. A token needs the operator's scope; its subject is who acts."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.operators import decisions
from ingress.operators.cases import Cases
from ingress.payments.repair import proposal_calls
from ingress.payments.repair.closings import Closings

router: Final = APIRouter()


@router.post("/v1/cases/{case_id}/closings")
async def close_case(request: Request, case_id: str) -> Response:
    """Closes a case that needs no money, or proposes to: ``four_eyes`` and ``state`` say which."""
    async with decisions.deciding(request, "case.close", case_id) as asked:
        found, known = await asked.parts.get(Closings).propose(case_id, asked.body, asked.fields, asked.person)
    return calling.created(found, f"/v1/cases/{case_id}/closings/{found['id']}", is_replayed=known)


@router.get("/v1/cases/{case_id}/closings")
async def list_closings(request: Request, case_id: str) -> Response:
    """The closings of one case, newest first."""
    async with decisions.looking(request, "case.list_closings", case_id) as parts:
        return calling.json(await parts.get(Closings).of_case(case_id))


@router.get("/v1/cases/{case_id}/closings/{closing_id}")
async def get_closing(request: Request, case_id: str, closing_id: str) -> Response:
    """One closing, and what became of it."""
    return await proposal_calls.show(request, Closings, "case.read_closing", closing_id, case_id)


@router.post("/v1/cases/{case_id}/closings/{closing_id}/approve")
async def approve_closing(request: Request, case_id: str, closing_id: str) -> Response:
    """Closes the case as another person than the author."""
    return await proposal_calls.approve(request, Closings, "case.close", closing_id, case_id)


@router.post("/v1/cases/{case_id}/closings/{closing_id}/reject")
async def reject_closing(request: Request, case_id: str, closing_id: str) -> Response:
    """Rejects a proposed closing, or withdraws one's own; its case waits again."""
    return await proposal_calls.reject(request, Closings, "case.reject_closing", closing_id, case_id)


@router.post("/v1/cases/{case_id}/reopen")
async def reopen_case(request: Request, case_id: str) -> Response:
    """A case that was closed by a person waits again."""
    async with decisions.deciding(request, "case.reopen", case_id) as asked:
        known = await asked.parts.get(Closings).reopen(case_id, asked.body, asked.person)
        found = await asked.parts.get(Cases).get(case_id)
    return calling.decided(found, is_replayed=known)
