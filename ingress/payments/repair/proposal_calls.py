"""The calls that every kind of proposal has: one is shown, approved by a second person, or rejected.

A token needs the operator's scope; its subject is the person who acts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingress.commands import calling
from ingress.operators import decisions

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ingress.payments.repair.proposals import Proposals


async def show(
    request: Request, proposals: type[Proposals], action: str, proposal_id: str, case_id: str | None = None
) -> Response:
    """One proposal, and what became of it."""
    async with decisions.looking(request, action, *proposals.kind.ids(proposal_id, case_id)) as parts:
        return calling.json(await parts.get(proposals).get(proposal_id, case_id))


async def approve(
    request: Request, proposals: type[Proposals], action: str, proposal_id: str, case_id: str | None = None
) -> Response:
    """Approves as another person than the author; 202 when the owner has not decided yet."""
    async with decisions.deciding(request, action, *proposals.kind.ids(proposal_id, case_id)) as asked:
        asked.require_no_body()
        found, known = await asked.parts.get(proposals).approve(proposal_id, asked.person, case_id)
    return calling.decided(found, is_replayed=known, status=202 if found["state"] == "approved" else 200)


async def reject(
    request: Request, proposals: type[Proposals], action: str, proposal_id: str, case_id: str | None = None
) -> Response:
    """Rejects a proposal, or withdraws one's own."""
    async with decisions.deciding(request, action, *proposals.kind.ids(proposal_id, case_id)) as asked:
        found, known = await asked.parts.get(proposals).reject(proposal_id, asked.body, asked.person, case_id)
    return calling.decided(found, is_replayed=known)
