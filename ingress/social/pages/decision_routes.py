"""What moderators decided about the user, or what is its own; and its appeal."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.social.moderation.moderation import Moderation
from ingress.social.pages import acts
from ingress.social.pages import visit as visits

router: Final = visits.router()


@router.get("/decisions/{decision_id}")
async def decision(request: Request, decision_id: str) -> Response:
    """One decision, and what has come of an appeal against it."""
    found = await visits.signed_in(request)
    calling.require_id(decision_id)
    moderation = found.part(Moderation)
    one = await moderation.decision(decision_id, found.user)
    return found.page("decision.html", one=one, appeal=await moderation.appeal_state(decision_id))


@router.post("/posts/{post_id}/appeal")
async def appeal_post(request: Request, post_id: str) -> Response:
    """Asks somebody else than who decided about a post."""
    return await _appealed(request, f"{visits.HOME}/posts/{post_id}")


@router.post("/decisions/{decision_id}/appeal")
async def appeal(request: Request, decision_id: str) -> Response:
    """Asks somebody else than who decided."""
    return await _appealed(request, f"{visits.HOME}/decisions/{decision_id}")


async def _appealed(request: Request, back: str) -> Response:
    found = await visits.signed_in(request)
    fields = await found.form()
    payload = {"decision_id": fields.get("decision_id", ""), "text": fields.get("text", "").strip()}
    outcome = await acts.act(found, "appeal_decision", fields.get("key", ""), payload)
    if outcome.is_refused:
        return acts.refused(found, outcome)
    return found.page("told.html", said="Your appeal waits for another moderator than the one who decided.", back=back)
