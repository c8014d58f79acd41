"""A request is read to its end, within bounds, before its answer goes out: else the server cuts the line under it.

A refusal needs no body, but a server that leaves one unread closes the connection after the answer without a word:
what the client sends next is lost, and while it is still sending it does not even hear the refusal.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ingress import limits
from schemas import errors

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_BODY_FIELDS: Final = (b"content-length", b"transfer-encoding")
_CLOSES: Final = (b"connection", b"close")


class WholeRequests:
    """Drops what the application left of a body, to a bound; past that the answer says that it is the last.

    An answer that says so itself is sent as it is, at once. A body may take ``BODY_READ_S``, and beyond that as long as
    it comes at ``pace_bytes_s``, where there is such a pace.
    """

    def __init__(self, app: ASGIApp, pace_bytes_s: int | None = None) -> None:
        self._app = app
        self._pace_bytes_s = pace_bytes_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on."""
        if scope["type"] != "http" or not _has_body(scope):
            await self._app(scope, receive, send)
            return
        body = _Body(receive, self._pace_bytes_s)

        async def after_the_body(message: Message) -> None:
            if message["type"] == "http.response.start" and not body.is_whole:
                is_closed = any(name.lower() == b"connection" for name, _ in message.get("headers", ()))
                if not is_closed and not body.is_held_back(scope):
                    await body.drop()
                if not is_closed and not body.is_whole and scope["http_version"].startswith("1"):
                    message["headers"] = [*message.get("headers", ()), _CLOSES]
            await send(message)

        await self._app(scope, body.receive, after_the_body)


class _Body:
    """How much of a body was read."""

    def __init__(self, receive: Receive, pace_bytes_s: int | None) -> None:
        self._receive = receive
        self._pace_bytes_s = pace_bytes_s
        self._bytes = 0
        self._until_s: float | None = None  # by the loop's clock
        self.is_whole = False

    async def receive(self) -> Message:
        """The next part for whoever reads it. Raises RequestTimeout when the body takes too long."""
        if self.is_whole:  # it is asked whether the client is still there
            return await self._receive()
        if self._until_s is None:
            self._until_s = asyncio.get_running_loop().time() + limits.BODY_READ_S
        try:
            async with asyncio.timeout_at(self._until_s + self._earned_s()):
                message = await self._receive()
        except TimeoutError:
            slower = f", and slower than {self._pace_bytes_s} bytes a second" if self._pace_bytes_s else ""
            raise errors.RequestTimeout(f"The body did not come within {limits.BODY_READ_S:.0f} s{slower}.") from None
        self._bytes += len(message.get("body", b""))
        self.is_whole = not message.get("more_body", False)
        return message

    def _earned_s(self) -> float:
        """How much longer it may take for what has come."""
        return self._bytes / self._pace_bytes_s if self._pace_bytes_s else 0.0

    def is_held_back(self, scope: Scope) -> bool:
        """The client waits for a word (100 Continue) before it sends: a refusal spares it that (RFC 9110, 10.1.1)."""
        return self._bytes == 0 and any(name == b"expect" for name, _ in scope["headers"])

    async def drop(self) -> None:
        """Reads the rest, so much and for so long at most."""
        drained_s = asyncio.get_running_loop().time() + limits.BODY_DRAIN_S
        self._until_s = min(drained_s, self._until_s or drained_s)
        self._pace_bytes_s = None
        with suppress(errors.RequestTimeout):
            while not self.is_whole and self._bytes <= limits.BODY_DRAIN_BYTES_MAX:
                await self.receive()


def _has_body(scope: Scope) -> bool:
    return any(name in _BODY_FIELDS and value != b"0" for name, value in scope["headers"])
