"""How much of one process one caller takes: requests under way, by who proved to be, else by address.

Whoever shows no token, and no session of a page, is a stranger. Callers share many places, strangers few, each as
``Shares`` says. So unfinished bodies and hanging waits of a few leave room for everybody else.
Health is asked on another listener, and not counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.datastructures import Headers
from starlette.responses import Response

from ingress.http import problems
from ingress.identity.asking import ASKING
from ingress.identity.shares import Shares
from limiter.edge.client_address import client_address
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from prometheus_client import Counter
    from starlette.types import ASGIApp, Receive, Scope, Send

    from ingress.identity.caller import Caller
    from schemas.client_network import Network

_NOT_COUNTED: Final = frozenset(("/healthz", "/readyz"))
_STRANGER: Final = "stranger"
_CALLER: Final = "caller"
_UNKNOWN: Final = "unknown address"
Holder = tuple[str, str]  # kind, and which of them


class Bounds(NamedTuple):
    """How many requests may be under way in one process: N callers who take all that they get have 1/(N+1) each."""

    of_callers: int
    of_strangers: int  # all that show no token, by address


class Slots:
    """Refuses with 503 what is past the bound of its caller or address, and closes that connection unread.

    ``name_of`` tells whom the token of a request proves, or raises what is wrong with it; where it proves nobody,
    ``sessions`` tell who a cookie is of. ``bound_elsewhere``: names of ours that are not counted.
    """

    def __init__(
        self,
        app: ASGIApp,
        name_of: Callable[[Scope], Awaitable[str]],
        bounds: Bounds,
        refused: Counter,
        trusted_proxies: Sequence[Network] = (),
        sessions: Sequence[Callable[[Headers], Caller | None]] = (),
        bound_elsewhere: Sequence[str] = (),
    ) -> None:
        self._sessions = sessions
        self._app = app
        self._name_of = name_of
        self._shares = {_CALLER: Shares(bounds.of_callers), _STRANGER: Shares(bounds.of_strangers)}
        self._not_bound = frozenset((_CALLER, name) for name in bound_elsewhere)
        self._refused = refused
        self._trusted_proxies = trusted_proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on while its caller has a place left."""
        if scope["type"] != "http" or scope["path"] in _NOT_COUNTED:
            await self._app(scope, receive, send)
            return
        kind, name = holder = await self._holder(scope)
        ASKING.set(name if kind == _CALLER else "")
        if holder in self._not_bound:
            await self._app(scope, receive, send)
            return
        if not self._shares[kind].take(name):
            self._refused.labels(kind).inc()
            await _refusal()(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            self._shares[kind].give_back(name)

    async def _holder(self, scope: Scope) -> Holder:
        try:
            return _CALLER, await self._name_of(scope)
        except errors.PlatformError:  # the route says what is wrong with it
            headers = Headers(scope=scope)
            known = next((found for session in self._sessions if (found := session(headers))), None)
            if known is not None:
                return _CALLER, known.principal
            return _STRANGER, client_address(scope, self._trusted_proxies) or _UNKNOWN


def _refusal() -> Response:
    code = errors.Overloaded.code
    body = problems.render(code, "Too many requests of yours are under way here; try again with the same identity.")
    headers = problems.headers_of(code) | {"Connection": "close"}
    return Response(body, problems.row(code).status, headers, problems.MEDIA_TYPE)
