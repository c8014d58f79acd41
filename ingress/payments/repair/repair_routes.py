"""The routes of repairs. A token needs the operator's scope; its subject is the person who acts."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.operators import decisions
from ingress.payments.repair import proposal_calls
from ingress.payments.repair.repairs import Repairs

router: Final = APIRouter()


@router.post("/v1/cases/{case_id}/proposals")
async def propose_repair(request: Request, case_id: str) -> Response:
    """Proposes a ledger transaction that would settle the case; shows what it would do to every account."""
    async with decisions.deciding(request, "repair.propose", case_id) as asked:
        found, known = await asked.parts.get(Repairs).propose(case_id, asked.body, asked.fields, asked.person)
    return calling.created(found, f"/v1/repairs/{found['id']}", is_replayed=known)


@router.get("/v1/cases/{case_id}/proposals")
async def list_repairs(request: Request, case_id: str) -> Response:
    """The proposals of one case, newest first."""
    async with decisions.looking(request, "repair.list", case_id) as parts:
        return calling.json(await parts.get(Repairs).of_case(case_id))


@router.get("/v1/repairs/{repair_id}")
async def get_repair(request: Request, repair_id: str) -> Response:
    """One proposal with its preview, and what became of it."""
    return await proposal_calls.show(request, Repairs, "repair.read", repair_id)


@router.post("/v1/repairs/{repair_id}/approve")
async def approve_repair(request: Request, repair_id: str) -> Response:
    """Approves as another person than the author, and posts; 202 when it is approved and not posted yet."""
    return await proposal_calls.approve(request, Repairs, "repair.approve", repair_id)


@router.post("/v1/repairs/{repair_id}/reject")
async def reject_repair(request: Request, repair_id: str) -> Response:
    """Rejects a proposal, or withdraws one's own; its case waits again."""
    return await proposal_calls.reject(request, Repairs, "repair.reject", repair_id)


@router.post("/v1/repairs/{repair_id}/reverse")
async def reverse_repair(request: Request, repair_id: str) -> Response:
    """Proposes the mirror image of a posted repair, for two persons again."""
    async with decisions.deciding(request, "repair.reverse", repair_id) as asked:
        found, known = await asked.parts.get(Repairs).reverse(repair_id, asked.body, asked.fields, asked.person)
    return calling.created(found, f"/v1/repairs/{found['id']}", is_replayed=known)
