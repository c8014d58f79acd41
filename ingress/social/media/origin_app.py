"""The origin's two routes, and the one place where a failure becomes an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import structlog
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route

from ingress.http import problems
from ingress.http.requests.whole_requests import WholeRequests
from ingress.social.media.byte_ranges import RangeNotSatisfiable
from schemas import errors
from schemas.social import limits as social_limits

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ingress.social.media.origin import Origin

_NOT_ALLOWED: Final = 405
_ANY_ORIGIN: Final = ((b"access-control-allow-origin", b"*"),)
_PREFLIGHT: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "PUT",
    "Access-Control-Allow-Headers": "content-type",
    "Access-Control-Max-Age": "600",
    "Cache-Control": "no-store",
}


def create_app(origin: Origin) -> ASGIApp:
    """The application over one origin; who made the origin starts and closes it."""
    routes = [
        Route("/uploads/{media_id}/{number}", origin.put, methods=["PUT"]),
        Route("/media/{media_id}/{access_version}/{name}", origin.get, methods=["GET"]),
    ]
    handlers: dict[Any, Any] = {
        errors.PlatformError: _on_platform_error,
        HTTPException: _on_http_exception,
        ClientDisconnect: _on_disconnect,
        Exception: _on_bug,
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return WholeRequests(PutByPages(app), social_limits.MEDIA_PACE_BYTES_S)


class PutByPages:
    """Lets the scripts of any page put parts: what admits them is the signed URL, and no cookie is looked at here."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers what browsers ask before, and says with every answer that the script may read it."""
        if scope["type"] != "http" or not scope["path"].startswith("/uploads/"):
            await self._app(scope, receive, send)
            return
        asked = Headers(scope=scope)
        if scope["method"] == "OPTIONS" and "access-control-request-method" in asked:
            await Response(status_code=204, headers=_PREFLIGHT)(scope, receive, send)
            return

        async def saying(message: Message) -> None:
            if message["type"] == "http.response.start" and "origin" in asked:
                message["headers"] = [*message["headers"], *_ANY_ORIGIN]
            await send(message)

        await self._app(scope, receive, saying)


def _problem(error: errors.PlatformError) -> Response:
    status = problems.row(error.code).status
    return Response(problems.of_error(error), status, problems.headers_of(error.code), problems.MEDIA_TYPE)


async def _on_platform_error(_: Request, error: Exception) -> Response:
    if not isinstance(error, errors.PlatformError):
        raise error
    if not isinstance(error, errors.Rejected | errors.Overloaded):  # who floods us fills no log
        structlog.get_logger().warning("media_request_failed", code=error.code, **error.context)
    answer = _problem(error)
    if isinstance(error, RangeNotSatisfiable):
        answer.headers["Content-Range"] = f"bytes */{error.size}"
    return answer


async def _on_http_exception(_: Request, error: Exception) -> Response:
    """What the router itself refuses: an unknown path or method."""
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code != _NOT_ALLOWED:
        return _problem(errors.NotFound("No such object."))
    headers = problems.headers_of("method_not_allowed") | {"Allow": (error.headers or {}).get("Allow", "")}
    body = problems.render("method_not_allowed", "Use another method here.")
    return Response(body, _NOT_ALLOWED, headers, problems.MEDIA_TYPE)


async def _on_disconnect(_: Request, __: Exception) -> Response:
    return Response(status_code=400)  # nobody hears it


async def _on_bug(_: Request, error: Exception) -> Response:
    structlog.get_logger().error("media_request_crashed", exc_info=error)
    return _problem(errors.PlatformError("Something went wrong; try again."))
