"""The routes of money by hand. A token needs the operator's scope; its subject is the person who acts."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.http.requests import reading
from ingress.operators import decisions
from ingress.payments.repair import money_proposals, proposal_calls
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
    return await proposal_calls.show(request, MoneyProposals, "money.read", proposal_id)


@router.post("/v1/money_proposals/{proposal_id}/approve")
async def approve_money_proposal(request: Request, proposal_id: str) -> Response:
    """Approves as another person than the author, and carries it out; 202 when the owner has not decided yet."""
    return await proposal_calls.approve(request, MoneyProposals, "money.approve", proposal_id)


@router.post("/v1/money_proposals/{proposal_id}/reject")
async def reject_money_proposal(request: Request, proposal_id: str) -> Response:
    """Rejects a proposal, or withdraws one's own."""
    return await proposal_calls.reject(request, MoneyProposals, "money.reject", proposal_id)
