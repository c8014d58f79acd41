"""What a caller has open ends when it is denied: streams, long polls, downloads.

Commands are not cut off: what was accepted before is carried out, and its answer is due.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers

from schemas import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ingress.identity.auth import Authenticator
    from ingress.identity.caller import Caller
    from ingress.identity.denials import Denials

_READS: Final = frozenset({"GET", "HEAD"})


class EndedWhenDenied:
    """The middleware. ``sessions`` tell whom a cookie is of, where no token says it."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        authenticator: Authenticator,
        denials: Denials,
        refusal: Callable[[errors.PlatformError], ASGIApp],
        sessions: Sequence[Callable[[Headers], Caller | None]] = (),
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._denials = denials
        self._refusal = refusal
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on; a refusal in place of an answer, or the end of one that has begun."""
        task = asyncio.current_task()
        if task is None or scope["type"] != "http" or scope["method"] not in _READS:
            await self._app(scope, receive, send)
            return
        last: Message | None = None

        async def watched(message: Message) -> None:
            nonlocal last
            last = message
            await send(message)

        self._denials.opened(task, await self._caller(scope))
        why: errors.PlatformError | None = None
        try:
            await self._app(scope, receive, watched)
        except asyncio.CancelledError:
            if (why := self._denials.closed(task)) is None:
                raise
            task.uncancel()
        finally:
            self._denials.closed(task)
        if why is None:
            return
        if last is None:
            await self._refusal(why)(scope, receive, send)
        elif last["type"] == "http.response.start" or last.get("more_body"):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _caller(self, scope: Scope) -> Caller | None:
        try:  # who was denied since the request came would be watched from now on, in vain
            return await self._authenticator.caller_in(scope, anew=True)
        except errors.PlatformError:  # the route says what is wrong with it, or lets in who cannot be told only now
            headers = Headers(scope=scope)
            return next((found for session in self._sessions if (found := session(headers)) is not None), None)
