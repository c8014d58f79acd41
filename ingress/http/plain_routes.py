"""Routes that ask FastAPI for nothing but the request and the ids of the path, served by Starlette's own router.

Nearly all of ours read their bodies raw, so FastAPI has nothing to derive, validate or inject for them. Its machinery
for that was a quarter of the Python time of a single command. A route that asks it for something keeps it.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from fastapi.routing import APIRoute
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from fastapi import APIRouter
    from starlette.requests import Request
    from starlette.responses import Response


def plain_routes(routers: Iterable[APIRouter]) -> list[Route]:
    """Those of the routers' routes that need nothing of FastAPI, in their order: they match and answer as before."""
    routes = (route for router in routers for route in router.routes)
    # a class of its own handles requests in its own way, as that of the console does
    return [_plain(route) for route in routes if type(route) is APIRoute and _is_plain(route)]


def _is_plain(route: APIRoute) -> bool:
    asked = route.dependant
    injected = (
        asked.query_params or asked.header_params or asked.cookie_params or asked.body_params or asked.dependencies
    )
    names_only = all(param.field_info.annotation is str for param in asked.path_params)
    is_async = inspect.iscoroutinefunction(route.endpoint)
    return is_async and asked.request_param_name == "request" and names_only and not injected


def _plain(route: APIRoute) -> Route:
    asked = [param.name for param in route.dependant.path_params]
    made = Route(route.path, _answering(route.endpoint, asked), name=route.name)
    made.methods = route.methods  # Starlette would add HEAD
    return made


def _answering(
    endpoint: Callable[..., Awaitable[Response]], asked: Sequence[str]
) -> Callable[[Request], Awaitable[Response]]:
    """A handler that takes all ids, some of them, or reads them from the request itself."""

    async def answer(request: Request) -> Response:
        return await endpoint(request, **{name: request.path_params[name] for name in asked})

    return answer
