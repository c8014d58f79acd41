"""All pages of users; what none of them knows is a page that says so."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ingress.browser.sign_in import SignIn
from ingress.social.pages import decision_routes, graph_routes, media_routes, own_routes, post_routes, reading_routes
from ingress.social.pages import visit as visits
from schemas import errors

_lost: Final = visits.router()


@_lost.get("/{rest:path}")
async def lost(request: Request, rest: str) -> Response:
    """A path that no page has; who is not signed in hears no more than anywhere else."""
    await visits.signed_in(request)
    if not rest:
        return visits.go(visits.HOME)
    raise errors.NotFound("There is no such page.")


#: in the order in which they are asked; the last one takes what is left
ROUTERS: Final = (
    SignIn(visits.Visit).router(),
    reading_routes.router,
    decision_routes.router,
    own_routes.router,
    post_routes.router,
    graph_routes.router,
    media_routes.router,
    _lost,
)
