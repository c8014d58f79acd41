"""Bounds the open streams of one process: in all, and for each caller."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from starlette.responses import StreamingResponse

from ingress import limits
from ingress.commands import calling
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.types import Receive, Scope, Send

    from ingress.identity.caller import Caller


class StreamPlaces:
    """The places of one kind of stream."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()  # by caller

    def take(self, caller: Caller) -> None:
        """A place for one stream, until ``leave``. Raises Overloaded when there is none, or none for this caller."""
        if self._open.total() >= limits.EVENT_STREAMS_MAX:
            raise errors.Overloaded("Too many streams are open.")
        if self._open.get(caller.principal, 0) >= limits.EVENT_STREAMS_OF_CALLER_MAX:
            raise errors.Overloaded("Too many streams of this caller are open.")
        self._open[caller.principal] += 1

    def leave(self, caller: Caller) -> None:
        """Frees the place of one stream."""
        self._open[caller.principal] -= 1
        if not self._open[caller.principal]:
            del self._open[caller.principal]


class PlacedStream(StreamingResponse):
    """A stream of server-sent events that frees its place when it ends, however it ends."""

    def __init__(self, frames: AsyncIterator[bytes], leave: Callable[[], None]) -> None:
        headers = calling.NO_STORE | {"X-Accel-Buffering": "no"}
        super().__init__(frames, headers=headers, media_type="text/event-stream")
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the response."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()
