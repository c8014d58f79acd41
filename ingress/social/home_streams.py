"""A home as it grows (server-sent events). Each post is out of an authorized read of that moment, once a stream.

Each event names its post: a stream that was cut off, or a page that was made before it, goes on behind that one.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingress import limits as ingress_limits
from ingress.commands.arrivals import woken
from ingress.http import reading
from schemas import errors
from schemas.social import limits as social_limits
from schemas.social.service import SERVICE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from ingress.commands.arrivals import Arrivals
    from ingress.identity.caller import Caller
    from ingress.social.timelines import Timelines

_HEARTBEAT: Final = b": alive\n\n"
_encode: Final = msgspec.json.Encoder().encode


class HomeStreams:
    """Open streams of this process."""

    def __init__(self, timelines: Timelines, arrivals: Arrivals) -> None:
        self._timelines = timelines
        self._arrivals = arrivals
        self._open: set[asyncio.Event] = set()
        self._closing = asyncio.Event()

    def admit(self) -> None:
        """Raises Overloaded when no further stream may be opened."""
        if self._closing.is_set() or len(self._open) >= ingress_limits.EVENT_STREAMS_MAX:
            raise errors.Overloaded("Too many streams are open.")

    def close(self) -> None:
        """Ends every stream."""
        self._closing.set()
        for heard in self._open:
            heard.set()

    async def stream(self, caller: Caller, after: str | None = None) -> AsyncIterator[bytes]:
        """What comes home from now on, until the token expires, the user is erased, the drain, or the client leaves.

        ``after`` is the post that stood first in a home: what came since is told, too. Of the newest page all is, where
        it has no such post any more, or had none.
        """
        heard, looks = asyncio.Event(), 0
        self._open.add(heard)
        try:
            known = _known([post["post_id"] for post in await self._newest(caller)], after)
            yield b"retry: 1000\n\n"
            with self._arrivals.listening(heard, SERVICE.events_topic):
                while not self._closing.is_set() and time.time() < caller.expires_at:
                    posts = await self._newest(caller)
                    fresh = [post for post in reversed(posts) if post["post_id"] not in known]
                    known = [*known, *(post["post_id"] for post in fresh)][-social_limits.HOME_POSTS_MAX :]
                    yield b"".join(map(_event, fresh)) or _HEARTBEAT
                    looks = await self._pause(heard, looks)
        except (errors.Unavailable, errors.Gone):
            return  # the client opens another one, and is told why not
        finally:
            self._open.discard(heard)

    async def _newest(self, caller: Caller) -> list[dict[str, Any]]:
        page = await self._timelines.home(caller.user, ingress_limits.PAGE_LIMIT_DEFAULT, None)
        found: list[dict[str, Any]] = page["data"]
        return found

    async def _pause(self, heard: asyncio.Event, looks: int) -> int:
        """Until the next look; how many are to follow it soon: an event is at home a little after it was heard of."""
        if heard.is_set():
            heard.clear()
            looks = social_limits.HOME_STREAM_LOOKS
        if looks:
            await woken(self._closing, social_limits.HOME_STREAM_INTERVAL_S)
            return looks - 1
        await woken(heard, social_limits.HOME_STREAM_UNASKED_S)
        return 0


def _known(ids: list[str], after: str | None) -> list[str]:
    """What of a home was told, the newest first."""
    if after is None:
        return ids
    return ids[ids.index(after) :] if after in ids else []


def _event(post: dict[str, Any]) -> bytes:
    return b"id: %b\nevent: post\ndata: %b\n\n" % (post["post_id"].encode(), _encode(post))


def asked_after(request: Request) -> str | None:
    """Behind which post a stream is asked to go on: what a client heard last, or what it was made with."""
    return request.headers.get("last-event-id") or reading.query(request, "after")
