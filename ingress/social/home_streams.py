"""A home as it grows (server-sent events). Each post is out of an authorized read of that moment, once a stream.

Each event's id says what was told: a stream that was cut off, or a page that was made before it, goes on from there.
"""

from __future__ import annotations

import asyncio
import time
from itertools import starmap
from typing import TYPE_CHECKING, Final

import msgspec

from ingress import limits as ingress_limits
from ingress.commands.arrivals import woken
from ingress.commands.stream_places import StreamPlaces
from ingress.http.requests import reading
from ingress.social.told import Post, Told
from schemas import errors
from schemas.social import limits as social_limits
from schemas.social.service import SERVICE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from starlette.requests import Request

    from ingress.commands.arrivals import Arrivals
    from ingress.identity.caller import Caller
    from ingress.social.timelines import Timelines

_PAGE: Final = ingress_limits.PAGE_LIMIT_DEFAULT
_HEARTBEAT: Final = b": alive\n\n"
_encode: Final = msgspec.json.Encoder().encode


class HomeStreams:
    """Open streams of this process."""

    def __init__(self, timelines: Timelines, arrivals: Arrivals) -> None:
        self._timelines = timelines
        self._arrivals = arrivals
        self._open: set[asyncio.Event] = set()
        self._places = StreamPlaces()
        self._closing = asyncio.Event()

    def admit(self, caller: Caller) -> None:
        """A place for one stream, until ``leave``. Raises Overloaded when there is none, or none for this caller."""
        if self._closing.is_set():
            raise errors.Overloaded("Too many streams are open.")
        self._places.take(caller)

    def leave(self, caller: Caller) -> None:
        """The place is free again."""
        self._places.leave(caller)

    def close(self) -> None:
        """Ends every stream."""
        self._closing.set()
        for heard in self._open:
            heard.set()

    async def stream(self, caller: Caller, after: str | None = None) -> AsyncIterator[bytes]:
        """What comes home from now on, until the token expires, the user is erased, the drain, or the client leaves.

        It ends after ``HOME_STREAM_BYTES_MAX``, too: of a client that reads nothing megabytes would lie in memory.
        ``after`` is the id of an event, or of a page: the stream goes on as if it had not ended. Or it is the post that
        stood first in a home: what stands above it is told, and where it is gone, or was none, all of the newest page.
        """
        heard, looks, room = asyncio.Event(), 0, social_limits.HOME_STREAM_BYTES_MAX
        self._open.add(heard)
        try:
            told = await self._begun(caller, after)
            yield b"retry: 1000\nid: %b\n\n" % told.place.encode()  # who hears nothing more goes on from here, too
            with self._arrivals.listening(heard, SERVICE.events_topic):
                while not self._closing.is_set() and time.time() < caller.expires_at:
                    fresh = told.fresh(await self._newest(caller, told.reaches))
                    said = _first(starmap(_event, fresh), room) or _HEARTBEAT
                    yield said
                    room -= len(said)
                    if room <= 0:
                        return
                    looks = await self._pause(heard, looks)
        except (errors.Unavailable, errors.Gone):
            return  # the client opens another one, and is told why not
        finally:
            self._open.discard(heard)

    async def _begun(self, caller: Caller, after: str | None) -> Told:
        if after and (found := Told.again(after)):
            return found
        return Told.before(await self._newest(caller, lambda post: not after or post["post_id"] == after), after)

    async def _newest(self, caller: Caller, is_enough: Callable[[Post], bool]) -> list[Post]:
        """A home from its newest post on: a page where that has a post that is enough, else as many as a look may have.

        All are out of one read: those of an earlier one might be hidden by the time a later one has answered.
        """
        page = await self._timelines.home(caller.user, _PAGE, None)
        if page["next_cursor"] is not None and not any(map(is_enough, page["data"])):
            page = await self._timelines.home(caller.user, social_limits.HOME_STREAM_POSTS_MAX, None)
        found: list[Post] = page["data"]
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


def _first(events: Iterable[bytes], room: int) -> bytes:
    """Events until there is no room for more; one in any case, so that whoever comes again gets further."""
    found, size = [], 0
    for event in events:
        found.append(event)
        size += len(event)
        if size >= room:
            break
    return b"".join(found)


def _event(event_id: str, post: Post) -> bytes:
    return b"id: %b\nevent: post\ndata: %b\n\n" % (event_id.encode(), _encode(post))


def asked_after(request: Request) -> str | None:
    """Where a stream is asked to go on: behind what a client heard last, or what it was made with."""
    return request.headers.get("last-event-id") or reading.query(request, "after")
