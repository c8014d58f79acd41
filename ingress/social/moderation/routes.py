"""The routes of moderators that read, and of authors about whom was decided."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.http.parts import parts_of
from ingress.social.moderation.moderation import Moderation
from ingress.social.users import Users
from schemas import errors
from schemas.social.moderation_operations import APPEAL_STATES, MODERATOR
from schemas.social.service import READ

router: Final = APIRouter()


@router.get("/v1/moderation/queue")
async def queue(request: Request) -> Response:
    """What users report and nobody has decided, the most urgent first."""
    user = await _moderator(request)
    return calling.json(await parts_of(request).get(Moderation).queue(user, *calling.place(request)))


@router.get("/v1/moderation/decisions/{decision_id}")
async def get_decision(request: Request, decision_id: str) -> Response:
    """One decision: of moderators any, of others one about themselves or what is theirs."""
    caller = await calling.caller_of(request, READ, MODERATOR)
    moderates = await parts_of(request).get(Users).moderates(caller)
    calling.require_id(decision_id)
    author_id = None if moderates else caller.user
    return calling.json(await parts_of(request).get(Moderation).decision(decision_id, author_id))


@router.get("/v1/moderation/appeals")
async def list_appeals(request: Request) -> Response:
    """Appeals, the last first: of moderators all, of others their own."""
    caller = await calling.caller_of(request, READ, MODERATOR)
    moderates = await parts_of(request).get(Users).moderates(caller)
    state = request.query_params.get("state", "")
    if state not in ("", *APPEAL_STATES):
        reason = f"must be one of {', '.join(APPEAL_STATES)}"
        raise errors.InvalidCommand([{"field": "state", "reason": reason}], f"The query value state {reason}.")
    author_id = None if moderates else caller.user
    limit, cursor = calling.place(request)
    return calling.json(await parts_of(request).get(Moderation).appeals(caller.user, author_id, state, limit, cursor))


@router.get("/v1/moderation/decisions/{decision_id}/propagation")
async def propagation(request: Request, decision_id: str) -> Response:
    """What a decision has reached."""
    await _moderator(request)
    calling.require_id(decision_id)
    return calling.json(await parts_of(request).get(Moderation).propagation(decision_id))


async def _moderator(request: Request) -> str:
    caller = await calling.caller_of(request, MODERATOR)
    return await parts_of(request).get(Users).moderator(caller)
