"""All routes of the console; what none of them knows is a page that says so."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ingress.console import (
    closing_routes,
    desk_routes,
    health_routes,
    outcome_routes,
    pages,
    parked_routes,
    repair_routes,
    review_routes,
    sign_in,
    story_routes,
    tenant_boards,
    tenant_decisions,
    tenant_routes,
    work_routes,
)
from ingress.console import visit as visits
from schemas import errors

_lost: Final = visits.router()


@_lost.get("/{rest:path}")
async def lost(request: Request, rest: str) -> Response:
    """A path that no page has; who is not signed in hears no more than anywhere else."""
    found = await visits.visit(request)
    if found.session is None:
        raise errors.Unauthenticated("Sign in to go on.")
    if not rest:
        return RedirectResponse(visits.HOME, 303, pages.HEADERS)
    raise errors.NotFound("There is no such page.")


#: in the order in which they are asked; the last one takes what is left
ROUTERS: Final = (
    sign_in.router,
    work_routes.router,
    story_routes.router,
    health_routes.router,
    tenant_routes.router,
    tenant_boards.router,
    tenant_decisions.router,
    repair_routes.router,
    closing_routes.router,
    outcome_routes.router,
    review_routes.router,
    parked_routes.router,
    desk_routes.router,
    _lost,
)
