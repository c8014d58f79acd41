"""The routes of money by hand. A token needs the operator's scope; its subject is the person who acts."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.http import reading
from ingress.operators import decisions
from ingress.payments.repair import money_proposals
from ingress.payments.repair.money_proposals import MoneyProposals

router: Final = APIRouter()


@router.get("/v1/money_proposals")
async def list_money_proposals(request: Request) -> Response:
    """The newest, of one state when it is asked for."""
    async with decisions.looking(request, "money.list", "money_proposals") as parts:
        state = reading.choice(request, "state", money_proposals.STATES)
        return calling.json(await parts.get(MoneyProposals).newest(state))


@router.get("/v1/money_proposals/{proposal_id}")
async def get_money_proposal(request: Request, proposal_id: str) -> Response:
    """One proposal, and what became of it."""
    async with decisions.looking(request, "money.read", proposal_id) as parts:
        return calling.json(await parts.get(MoneyProposals).get(proposal_id))


@router.post("/v1/money_proposals/{proposal_id}/approve")
async def approve_money_proposal(request: Request, proposal_id: str) -> Response:
    """Approves as another person than the author, and carries it out; 202 when the owner has not decided yet."""
    async with decisions.deciding(request, "money.approve", proposal_id) as asked:
        asked.require_no_body()
        found = await asked.parts.get(MoneyProposals).approve(proposal_id, asked.person)
    return calling.json(found, status=202 if found["state"] == "approved" else 200)


@router.post("/v1/money_proposals/{proposal_id}/reject")
async def reject_money_proposal(request: Request, proposal_id: str) -> Response:
    """Rejects a proposal, or withdraws one's own."""
    async with decisions.deciding(request, "money.reject", proposal_id) as asked:
        return calling.json(await asked.parts.get(MoneyProposals).reject(proposal_id, asked.body, asked.person))
