"""Routes that ask FastAPI for nothing but the request and the ids of the path, served by Starlette's own router.

Nearly all of ours read their bodies raw, so FastAPI has nothing to derive, validate or inject for them. Its machinery
for that was a quarter of the Python time of a single command. A route that asks it for something keeps it.

What a query may say is what the OpenAPI document says: a name that it does not know would be ignored, and a list that
somebody believes to be filtered be read as such. So it is refused.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Match, Route

from schemas import errors
from schemas.fields import validation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from fastapi import APIRouter
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

Json = dict[str, Any]
_SHOWN: Final = 40  # characters of a name
_KEYED: Final = "[KEY]"
_FOUND: Final = "millrace.route"


def plain_routes(routers: Iterable[APIRouter], document: Callable[[], Json] = dict) -> list[Route]:
    """Those of the routers' routes that need nothing of FastAPI, in their order: they match and answer as before.

    ``document`` gives the OpenAPI document, when a query comes. A route that it does not have takes any.
    """
    routes = (route for router in routers for route in router.routes)
    queries = Queries(document)
    # a class of its own handles requests in its own way, as that of the console does
    return [_plain(route, queries) for route in routes if type(route) is APIRoute and _is_plain(route)]


class FixedPaths(BaseRoute):
    """Finds at once which of these routes answers a path without ids: to try all of them cost 7 % of a read.

    What it does not know, or what an earlier one of them would answer, it leaves to those behind it.
    """

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = {
            (method, route.path): route
            for n, route in enumerate(routes)
            for method in route.methods or ()
            if not route.param_convertors and not any(_answers(other, method, route.path) for other in routes[:n])
        }

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """As the route itself would say."""
        route = self._routes.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if route is None:
            return Match.NONE, {}
        return Match.FULL, {"endpoint": route.endpoint, "path_params": {}, _FOUND: route}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """By the route that was found."""
        await scope[_FOUND].handle(scope, receive, send)


def _answers(route: Route, method: str, path: str) -> bool:
    return method in (route.methods or ()) and route.path_regex.match(path) is not None


class Queries:
    """Which values a query may have, by route and method."""

    def __init__(self, document: Callable[[], Json]) -> None:
        self._document = document
        self._known: dict[tuple[str, str], frozenset[str] | None] = {}

    def require_known(self, request: Request, template: str) -> None:
        """Raises MalformedRequest for a value that this route would ignore, and for bytes that are no text."""
        _require_text(request.scope["query_string"])
        place = template, request.method
        if place not in self._known:
            self._known[place] = _names(self._document().get("paths", {}).get(template, {}).get(request.method.lower()))
        known = self._known[place]
        unknown = [] if known is None else [name for name in request.query_params if not _is_known(name, known)]
        if unknown:
            there_are = f"there are {', '.join(sorted(known))}" if known else "there are none here"
            name = validation.visible(unknown[0][:_SHOWN])
            raise errors.MalformedRequest(f"There is no query value {name!r}; {there_are}.")


def _require_text(query: bytes) -> None:
    """A wrong byte would be read as U+FFFD, so that two different values would be one."""
    try:
        unquote_to_bytes(query).decode()
    except UnicodeDecodeError:
        raise errors.MalformedRequest("The query is no UTF-8: percent-encode the UTF-8 bytes of each value.") from None


def _names(operation: Json | None) -> frozenset[str] | None:
    if operation is None:
        return None
    in_query = [p for p in operation.get("parameters", ()) if p["in"] == "query"]
    return frozenset(p["name"] + (_KEYED if p.get("style") == "deepObject" else "") for p in in_query)


def _is_known(name: str, known: frozenset[str]) -> bool:
    """Whether a route reads it, itself or as one key of an object: ``metadata[KEY]``."""
    return name in known or (name.endswith("]") and name.partition("[")[0] + _KEYED in known)


def _is_plain(route: APIRoute) -> bool:
    asked = route.dependant
    injected = (
        asked.query_params or asked.header_params or asked.cookie_params or asked.body_params or asked.dependencies
    )
    names_only = all(param.field_info.annotation is str for param in asked.path_params)
    is_async = inspect.iscoroutinefunction(route.endpoint)
    return is_async and asked.request_param_name == "request" and names_only and not injected


def _plain(route: APIRoute, queries: Queries) -> Route:
    asked = [param.name for param in route.dependant.path_params]
    made = Route(route.path, _answering(route, asked, queries), name=route.name)
    made.methods = route.methods  # Starlette would add HEAD, which ``HeadAsGet`` answers for all routes
    return made


def _answering(route: APIRoute, asked: Sequence[str], queries: Queries) -> Callable[[Request], Awaitable[Response]]:
    """A handler that takes all ids, some of them, or reads them from the request itself."""
    endpoint: Callable[..., Awaitable[Response]] = route.endpoint
    template = route.path_format

    async def answer(request: Request) -> Response:
        if request.scope["query_string"]:
            queries.require_known(request, template)
        return await endpoint(request, **{name: request.path_params[name] for name in asked})

    return answer
