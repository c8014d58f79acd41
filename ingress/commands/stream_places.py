"""Bounds the open streams of one process: in all, for each caller, and by fair shares where callers are many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import StreamingResponse

from ingress import limits
from ingress.commands import calling
from ingress.identity.shares import Shares
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.types import Receive, Scope, Send

    from ingress.identity.caller import Caller


class StreamPlaces:
    """The places of one kind of stream; however many callers take all that they get, the next one has places."""

    def __init__(self) -> None:
        self._shares = Shares(limits.EVENT_STREAMS_MAX)  # by caller

    def take(self, caller: Caller) -> None:
        """A place for one stream, until ``leave``. Raises Overloaded when there is none, or none for this caller."""
        mine = self._shares.taken.get(caller.principal, 0)
        if mine >= limits.EVENT_STREAMS_OF_CALLER_MAX:
            raise errors.Overloaded("Too many streams of this caller are open.")
        if not self._shares.take(caller.principal):
            raise errors.Overloaded(f"Too many streams {'of this caller ' if mine else ''}are open.")

    def leave(self, caller: Caller) -> None:
        """Frees the place of one stream."""
        self._shares.give_back(caller.principal)


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
