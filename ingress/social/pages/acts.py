"""What a user does at the pages: the API's own commands, in the name of the session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ingress.commands.form_commands import Outcome, carry_out, in_words

if TYPE_CHECKING:
    from starlette.responses import Response

    from ingress.social.pages.visit import Visit

__all__ = ["Outcome", "act", "in_words", "refused"]


async def act(
    visit: Visit, name: str, key: str, payload: dict[str, Any], path_id: str | None = None, version: str | None = None
) -> Outcome:
    """Carries out one operation of social posts for who is signed in. Raises as ``carry_out``."""
    return await carry_out(visit.request, visit.who.caller(), name, key, payload, path_id, version)


def refused(visit: Visit, outcome: Outcome) -> Response:
    """A page that says why nothing was changed."""
    return visit.page("error.html", outcome.status, said=outcome.refusal, status=outcome.status)
