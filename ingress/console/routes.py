"""All routes of the console; what none of them knows is a page that says so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.browser.sign_in import SignIn
from ingress.console import pipeline_routes
from ingress.console import visit as visits
from ingress.console.declared import ConsolePages
from schemas import errors

_sign_in: Final = SignIn(visits.Visit).router()
_lost: Final = visits.router()


@_lost.get("/{rest:path}")
async def lost(request: Request, rest: str) -> Response:
    """A path that no page has; who is not signed in hears no more than anywhere else."""
    found = await visits.visit(request)
    if found.session is None:
        raise errors.Unauthenticated("Sign in to go on.")
    if not rest:
        return visits.go(visits.HOME)
    raise errors.NotFound("There is no such page.")


def routers(declared: Iterable[ConsolePages]) -> tuple[APIRouter, ...]:
    """In the order in which they are asked; the last one takes what is left."""
    of_services = (router for found in declared for router in found.routers)
    return (_sign_in, pipeline_routes.router, *of_services, _lost)
