"""Every call under a support grant: looked at when it begins, audited before its answer is given.

The row is written in the transaction that sees the grant, so what was revoked or is over is refused by the next call in
every process. The answer waits until the row says what became of it: without that row there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.datastructures import Headers
from starlette.responses import Response

from ingress.http import problems
from schemas import errors, validation

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ingress.http.store import Store
    from ingress.identity.auth import Authenticator
    from ingress.identity.caller import Caller

_REFUSED: Final = 400
_STREAMS: Final = "/stream"


class SupportGate:
    """The middleware. Callers without a grant pass it as they are."""

    def __init__(self, app: ASGIApp, *, authenticator: Authenticator, store: Store) -> None:
        self._app = app
        self._authenticator = authenticator
        self._store = store

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes on, or answers instead."""
        caller = await self._under_grant(scope)
        if caller is None:
            await self._app(scope, receive, send)
            return
        try:
            number = await self._begin(caller, scope)
            messages = await self._answered(scope, receive)
            word = "refused" if messages[0]["status"] >= _REFUSED else "done"
            await self._end(caller, number, word)
        except errors.PlatformError as error:
            await _problem(error)(scope, receive, send)
            return
        for message in messages:
            await send(message)

    async def _under_grant(self, scope: Scope) -> Caller | None:
        if scope["type"] != "http":
            return None
        try:
            caller = await self._authenticator.caller(Headers(scope=scope).get("authorization"))
        except errors.PlatformError:
            return None  # the route says so
        return caller if caller.grant_id else None

    async def _begin(self, caller: Caller, scope: Scope) -> int:
        """The number of its row. Raises GrantInactive, Forbidden, Unavailable."""
        path: str = scope["path"]
        asked = {
            "tenant": caller.tenant,
            "grant_id": caller.grant_id,
            "actor": caller.subject,
            "action": validation.visible(f"{scope['method']} {path}"),
            "object": validation.visible(path.rstrip("/").rpartition("/")[2]),
        }
        rows = await self._store.rows("support_call_begin", asked)
        if not rows or rows[0][1] != "begun":
            raise errors.GrantInactive
        number: int = rows[0][0]
        if path.endswith(_STREAMS):
            await self._end(caller, number, "refused")
            raise errors.Forbidden("Support follows no streams.")
        return number

    async def _end(self, caller: Caller, number: int, word: str) -> None:
        asked = {"tenant": caller.tenant, "number": number, "word": word}
        if not await self._store.rows("support_call_end", asked):
            raise errors.Unavailable("What was done cannot be audited.")

    async def _answered(self, scope: Scope, receive: Receive) -> list[Message]:
        """The whole answer, held back; a page at most, for streams are refused."""
        held: list[Message] = []

        async def hold(message: Message) -> None:
            held.append(message)

        await self._app(scope, receive, hold)
        return held


def _problem(error: errors.PlatformError) -> Response:
    headers: dict[str, Any] = problems.headers_of(error.code)
    return Response(problems.of_error(error), problems.row(error.code).status, headers, problems.MEDIA_TYPE)
