"""The vault's HTTP edge: few routes, and one place where every failure becomes an answer that tells nothing.

No traceback leaves this process and none is logged: its message could quote what a caller sent.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route

from ingress.http import problems
from ingress.http.quotas import of_process, refusal
from ingress.http.requests import header_fields, reading
from ingress.http.requests.whole_requests import WholeRequests
from ingress.identity.access_watch import AccessWatch
from ingress.identity.only_from_token import TenantOnlyFromToken
from ingress.identity.slots import Bounds, Slots
from limiter.edge.asgi import QuotaMiddleware
from limiter.edge.request_identity import idempotency_key
from schemas import errors, identity
from vault import forwarding, limits, metrics, quotas, sealing, token_request
from vault.audit import OUR_WORKERS
from vault.key_file import VaultKeysUnusable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from vault.state import Vault

READ: Final = "payments:read"
WRITE: Final = "payments:write"
_BOUNDS: Final = Bounds(limits.VAULT_REQUESTS_OF_CALLERS_MAX, limits.VAULT_REQUESTS_OF_STRANGERS_MAX)
_NO_STORE: Final = {"Cache-Control": "no-store"}
_encode: Final = msgspec.json.Encoder().encode


class Edge:
    """Refuses header fields that mean two things, and answers what nothing else handled without a word about it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on; a bug is a 500 and one log line with its place."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if (refusal := header_fields.why_refused(scope["headers"])) is not None:
            await _problem(refusal)(scope, receive, send)
            return
        is_answered = False

        async def watched(message: Message) -> None:
            nonlocal is_answered
            is_answered = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:  # noqa: BLE001 - whatever it is, its message must not reach a log
            places = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
            structlog.get_logger().error("vault_crashed", kind=type(error).__name__, places=places)
            if not is_answered:
                await _problem(_bug())(scope, receive, send)


def create_app(vault: Vault) -> ASGIApp:
    """The application over one vault; who made the vault starts and closes it."""

    async def create_token(request: Request) -> Response:
        caller = await vault.caller(request)
        async with vault.audit.refusals_of_merchant(caller, "token.create"):
            caller.require(WRITE)
            raw = await reading.body(request, reading.JSON, limits.VAULT_BODY_BYTES_MAX)
            signed = await vault.signer(request, caller, raw)
            asked = token_request.read_request(raw, request.headers)
            token, was_made_before = await vault.cards.create(caller, asked.idempotency_key, asked.card, signed)
        headers = {"Location": f"{token_request.PATH}/{token.id}"}
        if was_made_before:
            headers["Idempotency-Replayed"] = "true"
        return _json({"result": token.document()}, 201, headers)

    async def get_token(request: Request) -> Response:
        caller = await vault.caller(request)
        caller.require(READ)
        token = await vault.cards.find(caller.merchant, request.path_params["token_id"])
        return _json(token.document())

    async def delete_token(request: Request) -> Response:
        caller = await vault.caller(request)
        token_id = request.path_params["token_id"]
        async with vault.audit.refusals_of_merchant(caller, "token.delete"):
            caller.require(WRITE)
            raw = await reading.body(request, reading.JSON, limits.VAULT_BODY_BYTES_MAX)
            await vault.cards.delete(caller, token_id, await vault.signer(request, caller, raw))
        return _json({"result": {"id": token_id, "object": "token", "deleted": True}})

    async def forward(request: Request) -> Response:
        vault.require_worker(request)
        details: dict[str, str] = {}
        async with vault.audit.refusals_of_worker("card.forward", details):
            raw = await reading.body(request, reading.JSON, limits.VAULT_FORWARD_BODY_BYTES_MAX)
            asked = forwarding.read_forward(raw)
            details["merchant"] = asked.merchant_id
            if identity.is_card_token(asked.token):  # anything else could be the number itself
                details["token"] = asked.token
            answer = await vault.forwarder.carry_out(asked, request.headers)
        headers = answer.headers | {forwarding.MARK: "processor"} | _NO_STORE
        return Response(answer.body, answer.status, headers)

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def readyz(_: Request) -> Response:
        reason = await vault.why_not_ready()
        if reason is not None:
            raise errors.Unavailable(reason)
        return JSONResponse({"status": "ready"})

    one_token = f"{token_request.PATH}/{{token_id}}"
    routes = [
        Route(token_request.PATH, _unasked(create_token), methods=["POST"]),
        Route(one_token, _unasked(get_token), methods=["GET"]),
        Route(one_token, _unasked(delete_token), methods=["DELETE"]),
        Route("/v1/forward", _unasked(forward), methods=["POST"]),
        Route("/healthz", _unasked(healthz)),
        Route("/readyz", _unasked(readyz)),
    ]
    handlers: dict[Any, Any] = {
        errors.PlatformError: _on_platform_error,
        HTTPException: _on_http_exception,
        ClientDisconnect: _on_disconnect,
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return _guarded(app, vault)


def _unasked(endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint, which no query value reaches: what would be ignored is refused, and not repeated."""

    async def answer(request: Request) -> Response:
        if request.scope["query_string"]:
            raise errors.MalformedRequest("The vault knows no query values.")
        return await endpoint(request)

    return answer


def _guarded(app: ASGIApp, vault: Vault) -> ASGIApp:
    askers = quotas.askers(vault.holder, vault.trusted_proxies)
    watched = AccessWatch(
        app, authenticator=vault.authenticator, tell=vault.audit.suspicious, trusted_proxies=vault.trusted_proxies
    )
    limited = QuotaMiddleware(watched, of_process(*quotas.BURSTS), askers, refusal, idempotency_key)
    bounded = Slots(
        limited, vault.holder, _BOUNDS, metrics.SLOTS_REFUSED, vault.trusted_proxies, bound_elsewhere=(OUR_WORKERS,)
    )
    return WholeRequests(Edge(TenantOnlyFromToken(bounded, _problem)))


def _json(document: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(_encode(document), status, _NO_STORE | (headers or {}), "application/json")


def _problem(error: errors.PlatformError) -> Response:
    status = problems.row(error.code).status
    return Response(problems.of_error(error), status, problems.headers_of(error.code), problems.MEDIA_TYPE)


def _bug() -> errors.PlatformError:
    return errors.PlatformError("Something went wrong; try again with the same identity.")


async def _on_platform_error(_: Request, error: Exception) -> Response:
    if not isinstance(error, errors.PlatformError):
        raise error
    if isinstance(error, errors.Rejected):
        return _problem(error)
    structlog.get_logger().warning("vault_request_failed", code=error.code, cause=error.public, **error.context)
    if isinstance(error, VaultKeysUnusable):  # what to do about it is the operator's to read
        return _problem(errors.Unavailable())
    if isinstance(error, sealing.CardUnreadable):
        metrics.CARDS_UNREADABLE.inc()
        return _problem(_bug())
    return _problem(error)


async def _on_http_exception(request: Request, error: Exception) -> Response:
    """What the router itself refuses: an unknown path or method."""
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code != 405:  # noqa: PLR2004 - the router knows two refusals
        return _problem(errors.NotFound("There is no such route."))
    found = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
    allowed = ", ".join(sorted({method for route in found for method in route.methods}))
    headers = problems.headers_of("method_not_allowed") | {"Allow": allowed}
    return Response(problems.render("method_not_allowed", f"Use {allowed} here."), 405, headers, problems.MEDIA_TYPE)


async def _on_disconnect(_: Request, __: Exception) -> Response:
    return Response(status_code=400)  # nobody hears it
