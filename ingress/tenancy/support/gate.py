"""Every call under a support grant: looked at when it begins, audited before its answer is given.

The row is written in the transaction that sees the grant, so what was revoked or is over is refused by the next call in
every process. The answer waits until the row says what became of it: without that row there is none. A list of commands
has a row for each of its lines beside its own. Fields that the grant masks leave the whole answer here, whatever route
made it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response

from ingress.http import problems
from ingress.identity.auth import says_grant
from ingress.tenancy.support.lines import SupportLines, action_of, word
from schemas import errors
from schemas.tenancy import field_masks

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ingress.identity.auth import Authenticator
    from ingress.identity.caller import Caller
    from ingress.tenancy.support.calls import SupportCalls

_STREAMS: Final = "/stream"
_NOT_MASKED: Final = "The grant masks fields, and this answer has none that could be left out."


class SupportGate:
    """The middleware. Callers without a grant pass it as they are."""

    def __init__(self, app: ASGIApp, *, authenticator: Authenticator, calls: SupportCalls) -> None:
        self._app = app
        self._authenticator = authenticator
        self._calls = calls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes on, or answers instead."""
        try:
            caller = await self._under_grant(scope)
            messages = [] if caller is None else await self._in_turn(caller, scope, receive)
        except errors.PlatformError as error:
            await _problem(error)(scope, receive, send)
            return
        if caller is None:
            await self._app(scope, receive, send)
            return
        for message in messages:
            await send(message)

    async def _under_grant(self, scope: Scope) -> Caller | None:
        """Raises what keeps a token that says a grant from being judged: the route would judge it a moment later."""
        if scope["type"] != "http":
            return None
        try:
            caller = await self._authenticator.caller_in(scope)
        except errors.PlatformError:
            if says_grant(Headers(scope=scope).get("authorization")):
                raise
            return None  # the route says so
        return caller if caller.grant_id else None

    async def _in_turn(self, caller: Caller, scope: Scope, receive: Receive) -> list[Message]:
        """As ``_audited``. Raises Overloaded, too."""
        async with self._calls.turn(caller):
            return await self._audited(caller, scope, receive)

    async def _audited(self, caller: Caller, scope: Scope, receive: Receive) -> list[Message]:
        """The answer, once its row says what became of it. Raises GrantInactive, Forbidden, Unavailable."""
        path: str = scope["path"]
        name = path.rstrip("/").rpartition("/")[2]
        number, masks = await self._calls.begin(caller, action_of(scope), name)
        lines, answer = SupportLines(self._calls, caller, scope, receive), []
        try:
            if path.endswith(_STREAMS):
                raise errors.Forbidden("Support follows no streams.")
            answer = await self._answered(scope, lines.receive)
            messages = masked(answer, masks)
        except errors.PlatformError:
            await self._calls.end(caller.tenant, {number: "refused"} | lines.results(answer))
            raise
        results = lines.results(answer)
        is_vain = bool(results) and "done" not in results.values()
        own = "refused" if is_vain else word(messages[0]["status"])
        await self._calls.end(caller.tenant, {number: own} | results)
        return messages

    async def _answered(self, scope: Scope, receive: Receive) -> list[Message]:
        """The whole answer, held back; a page at most, for streams are refused."""
        held: list[Message] = []

        async def hold(message: Message) -> None:
            held.append(message)

        await self._app(scope, receive, hold)
        return held


def masked(messages: list[Message], masks: list[str]) -> list[Message]:
    """The answer without the fields that the grant masks. Raises Forbidden for one in which they cannot be told."""
    body = b"".join(message.get("body", b"") for message in messages[1:])
    if not masks or not body:
        return messages
    begins = messages[0]
    headers = MutableHeaders(raw=[tuple(field) for field in begins["headers"]])
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if "content-encoding" in headers or not (kind == "application/json" or kind.endswith("+json")):
        raise errors.Forbidden(_NOT_MASKED)
    try:
        shown = field_masks.without(body, masks)
    except msgspec.DecodeError as error:
        raise errors.Forbidden(_NOT_MASKED) from error
    headers["content-length"] = str(len(shown))
    return [{**begins, "headers": headers.raw}, {"type": "http.response.body", "body": shown}]


def _problem(error: errors.PlatformError) -> Response:
    headers: dict[str, Any] = problems.headers_of(error.code)
    return Response(problems.of_error(error), problems.row(error.code).status, headers, problems.MEDIA_TYPE)
