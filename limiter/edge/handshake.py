"""The handshake of a websocket as a request of HTTP, which it is: one GET, that may be refused.

Source: the ASGI specification of websockets, and its extension Websocket Denial Response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

TYPE: Final = "websocket"
_DENIAL: Final = "websocket.http.response"
#: of a handshake that is refused the server answers 403; the code is of RFC 6455, a policy was violated
_CLOSED: Final[Message] = {"type": "websocket.close", "code": 1008, "reason": ""}


def as_request(scope: Scope) -> Scope:
    """What a handshake asks for, for who reads requests; any other scope as it is."""
    return {**scope, "type": "http", "method": "GET"} if scope["type"] == TYPE else scope


def with_fields(message: Message, added: Sequence[tuple[bytes, bytes]]) -> Message:
    """The message with further fields, where it begins an answer or accepts a handshake."""
    if message["type"] in ("http.response.start", f"{_DENIAL}.start", "websocket.accept"):
        return {**message, "headers": [*message.get("headers", ()), *added]}
    return message


def denied(answer: ASGIApp) -> ASGIApp:
    """An application that refuses every handshake with this answer; with 403 where the server cannot tell more."""

    async def deny(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # the handshake
        if _DENIAL not in (scope.get("extensions") or {}):
            await send(_CLOSED)
            return

        async def send_denial(message: Message) -> None:
            await send({**message, "type": message["type"].replace("http.response", _DENIAL)})

        await answer(as_request(scope), receive, send_denial)

    return deny
