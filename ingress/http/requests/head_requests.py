"""HEAD wherever there is GET (RFC 9110, 9.3.2): the same status and header fields, and no content."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_NO_BODY: Final[Message] = {"type": "http.request", "body": b"", "more_body": False}
_NO_CONTENT: Final[Message] = {"type": "http.response.body", "body": b"", "more_body": False}


class HeadAsGet:
    """Has a HEAD answered as GET is, and leaves the content out.

    What is made while it is sent (events, exports) ends with its head: whoever makes it hears that its reader has gone.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        answered = asyncio.Event()
        is_read = False

        async def nothing_then_the_end() -> Message:
            nonlocal is_read
            if not is_read:
                is_read = True
                return _NO_BODY
            await answered.wait()
            return {"type": "http.disconnect"}

        async def head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send(_NO_CONTENT)
                answered.set()

        await self._app({**scope, "method": "GET"}, nothing_then_the_end, head)
