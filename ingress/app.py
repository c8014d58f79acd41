"""The application: routes, and the edge where every error becomes a problem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog
from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from ingress import limits, openapi
from ingress.commands import routes as command_routes
from ingress.commands.operation_routes import router_of
from ingress.console import routes as console
from ingress.http import health, metrics, problems, quotas, registry
from ingress.http.requests import header_fields, request_ids
from ingress.http.requests.head_requests import HeadAsGet
from ingress.http.requests.whole_requests import WholeRequests
from ingress.http.routing.known_paths import KnownOrRefused, KnownPaths
from ingress.http.routing.plain_routes import FixedPaths, plain_routes
from ingress.identity.access_watch import AccessWatch
from ingress.identity.ended import EndedWhenDenied
from ingress.identity.only_from_token import TenantOnlyFromToken
from ingress.identity.slots import Bounds, Slots
from ingress.limiter import api_bursts
from ingress.limiter.api_limits import Askers
from ingress.operators import access_routes, operators
from ingress.reference import routes as reference
from ingress.services import CONSOLE_PAGES, HTTP_SERVICES
from limiter.edge.asgi import QuotaMiddleware
from limiter.edge.request_identity import idempotency_key
from schemas import errors, services

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Receive, Scope, Send

    from ingress.state import Ingress


#: what the OpenAPI document describes
API_ROUTERS: Final = (
    router_of(services.OPERATIONS.values()),
    *(router for service in HTTP_SERVICES for router in service.routers),
    command_routes.router,
    operators.router,
    access_routes.router,
    health.router,
    registry.router,
)
PAGES: Final = tuple(router for service in HTTP_SERVICES for router in service.pages)
_BOUNDS: Final = Bounds(limits.REQUESTS_OF_CALLERS_MAX, limits.REQUESTS_OF_STRANGERS_MAX)
CONSOLE_ROUTERS: Final = console.routers(CONSOLE_PAGES)
ROUTERS: Final = (*API_ROUTERS, reference.router, *PAGES, *CONSOLE_ROUTERS)
_ROUTES: Final = tuple(route for router in ROUTERS for route in router.routes)
_KNOWN: Final = KnownPaths(_ROUTES)
#: nothing here takes it, and whether somebody does was asked at every request
_NO_TELEMETRY: Final[TelemetryConfig] = {"tracing": False, "metrics": False, "logs": False}


class ClearHeaders:
    """Refuses requests whose header fields are too many, or mean two things, before anything reads them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on or answers 400 or 431."""
        refusal = header_fields.why_refused(scope["headers"]) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await _problem(refusal)(scope, receive, send)


def create_app(ingress: Ingress) -> FastAPI:
    """The application over one ingress; who made the ingress starts and closes it."""
    app = FastAPI(
        title=openapi.TITLE,
        docs_url=None,  # its pages would load scripts from elsewhere; ours is ``reference``
        redoc_url=None,
        redirect_slashes=False,
        telemetry=_NO_TELEMETRY,
    )
    app.state.parts = ingress.parts
    plain = plain_routes(ROUTERS, openapi.document)
    own = len(app.router.routes)  # FastAPI's, of the document
    served: list[tuple[BaseRoute, BaseRoute]] = [(route, route) for route in plain]
    for router in ROUTERS:
        app.include_router(router)
        served += ((route, app.router.routes[-1]) for route in router.routes)
    app.router.routes[own:own] = (FixedPaths(plain), KnownOrRefused(served))
    app.openapi = openapi.document  # type: ignore[method-assign] # FastAPI's own way to give another document
    app.add_exception_handler(errors.PlatformError, _on_platform_error)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(ClientDisconnect, _on_disconnect)
    app.add_exception_handler(Exception, _on_bug)
    # added first, so behind all that bounds what one caller asks for
    for layer in (layer for service in ingress.services for layer in service.middleware(ingress.authenticator)):
        app.add_middleware(layer.cls, *layer.args, **layer.kwargs)
    sessions = [service.caller_of for service in ingress.services]
    if ingress.config.limiter is not None:
        askers = Askers(ingress.authenticator, _KNOWN, ingress.config.trusted_proxies, sessions)
        app.add_middleware(
            QuotaMiddleware,
            limiter=ingress.config.limiter,
            who_asks=askers,
            refusal=quotas.refusal,
            identity_of=idempotency_key,
        )
    app.add_middleware(
        AccessWatch,
        authenticator=ingress.authenticator,
        tell=ingress.audit.suspicious,
        trusted_proxies=ingress.config.trusted_proxies,
        sessions=[*sessions, ingress.caller_at_console],
    )
    app.add_middleware(
        EndedWhenDenied,
        authenticator=ingress.authenticator,
        denials=ingress.denials,
        refusal=_problem,
        sessions=sessions,
    )
    app.add_middleware(
        QuotaMiddleware,
        limiter=quotas.of_process(*api_bursts.BURSTS),
        who_asks=api_bursts.askers(ingress.authenticator, ingress.config.trusted_proxies, sessions),
        refusal=quotas.refusal,
        tells_what_is_left=False,  # published policies do
    )
    app.add_middleware(
        Slots,
        name_of=ingress.authenticator.principal_in,
        bounds=_BOUNDS,
        refused=metrics.SLOTS_REFUSED,
        trusted_proxies=ingress.config.trusted_proxies,
        sessions=sessions,
    )
    app.add_middleware(TenantOnlyFromToken, refusal=_problem)
    app.add_middleware(ClearHeaders)
    app.add_middleware(request_ids.NamedRequests)
    app.add_middleware(HeadAsGet)
    app.add_middleware(WholeRequests)
    return app


def _problem(error: errors.PlatformError) -> Response:
    return Response(
        problems.of_error(error),
        problems.row(error.code).status,
        problems.headers_of(error.code),
        problems.MEDIA_TYPE,
    )


async def _on_platform_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, errors.PlatformError):
        raise error
    if not isinstance(error, errors.Rejected):
        structlog.get_logger().warning(
            "request_failed", request_id=request_ids.of(request.scope), code=error.code, **error.context
        )
    if request.scope["path"].startswith(registry.PATHS):
        return registry.refusal(error, problems.headers_of(error.code))
    return _problem(error)


async def _on_http_exception(request: Request, error: Exception) -> Response:
    """What the router itself refuses: an unknown path or method."""
    if not isinstance(error, HTTPException):
        raise error
    methods = _KNOWN.methods(request.scope["path"])
    if request.scope["path"].startswith(registry.PATHS):
        return registry.refusal(error, {"Allow": ", ".join(methods)} if methods else {})
    if not methods:
        return _problem(errors.NotFound("There is no such route."))
    detail = f"Use {', '.join(methods)} here."
    headers = problems.headers_of("method_not_allowed") | {"Allow": ", ".join(methods)}
    return Response(problems.render("method_not_allowed", detail), 405, headers, problems.MEDIA_TYPE)


async def _on_disconnect(_: Request, __: Exception) -> Response:
    return Response(status_code=400)  # nobody hears it


async def _on_bug(request: Request, error: Exception) -> Response:
    structlog.get_logger().error(
        "request_crashed", request_id=request_ids.of(request.scope), path=request.url.path, exc_info=error
    )
    return _problem(errors.PlatformError("Something went wrong; try again with the same identity."))
