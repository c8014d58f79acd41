"""A caller's own events, in pages and as a stream that can be resumed, without gap or duplicate.

A place is a vector: the seq of the last event seen in each partition. Within a partition seqs are committed, growing
and without gap, so "seq > place" neither skips nor repeats an event. Events of one aggregate share a partition, so
their order holds.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from ingress import limits
from ingress.commands.arrivals import woken
from ingress.commands.stream_places import StreamPlaces
from ingress.http import metrics
from schemas import errors, rendering, services, stored_event
from schemas.avro import codec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from ingress.commands.arrivals import Arrivals
    from ingress.http.cursors import Cursors
    from ingress.http.store import Store
    from ingress.identity.caller import Caller
    from schemas import records
    from schemas.service import Service

LIST: Final = "events"
BEGINNING: Final = "0"
_MS: Final = 1_000
_HEARTBEAT: Final = b": alive\n\n"
_encode: Final = msgspec.json.Encoder().encode

Place = list[int]  # the last seq seen, for each partition of the topic
MayRead = Callable[[], Awaitable[None]]


class Item(Struct, frozen=True):
    """One event as JSON, its type, and the cursor after it."""

    data: bytes
    type: str
    cursor: str


class Events:
    """Reads pages of one service's events from the outbox. ``render`` makes the public body of an event."""

    def __init__(
        self, store: Store, cursors: Cursors, service: Service, render: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> None:
        self.service = service
        self._store = store
        self._cursors = cursors
        self._render = render
        self._partitions = service.partitions
        # the first service's cursors keep the name that they had before there was a second one
        self._list = LIST if service is services.SERVICES[0] else f"{LIST}:{service.name}"

    def place(self, merchant: str, cursor: str | None) -> Place:
        """The place that a cursor names; the beginning without a cursor. Raises MalformedRequest."""
        if not cursor or cursor == BEGINNING:
            return [0] * self._partitions
        place = self._cursors.read(merchant, self._list, cursor, list[int])
        if len(place) > self._partitions:
            raise errors.MalformedRequest("The cursor is of another deployment.")
        return place + [0] * (self._partitions - len(place))

    async def end(self) -> Place:
        """The place after the newest committed event of all callers."""
        place = [0] * self._partitions
        parameters = {"topic": self.service.events_topic, "partitions": list(range(len(place)))}
        for partition, seq in await self._store.rows("events_end", parameters):
            place[partition] = seq
        return place

    async def after(self, merchant: str, place: Place, limit: int) -> tuple[list[Item], bool]:
        """At most ``limit`` events after the place, and whether more are there now. Moves ``place`` forward."""
        parameters = {
            "scope": merchant,
            "topic": self.service.events_topic,
            "partitions": list(range(len(place))),
            "seqs": place,
            "limit": limit + 1,
        }
        rows = await self._store.rows("events_after", parameters)
        lanes: list[list[tuple[int, records.Event]]] = [[] for _ in place]
        for partition, _, stored in rows:
            event = codec.decode_event(stored_event.published(bytes(stored)))
            lanes[partition].append((partition, event))
        # In order of time over all partitions, as far as the order within each allows.
        merged = heapq.merge(*lanes, key=lambda entry: entry[1].occurred_at)
        items: list[Item] = []
        for partition, event in itertools.islice(merged, limit):
            place[partition] = event.seq
            document = rendering.event(event, self._render(event.body))
            items.append(Item(_encode(document), event.event_type, self._cursors.write(merchant, self._list, place)))
        return items, len(rows) > len(items)

    async def page(self, merchant: str, limit: int, cursor: str | None) -> bytes:
        """One page as JSON. It always has a ``next_cursor``, also for events that come later."""
        place = self.place(merchant, cursor)
        items, has_more = await self.after(merchant, place, limit)
        document = {
            "data": [msgspec.Raw(item.data) for item in items],
            "has_more": has_more,
            "next_cursor": self._cursors.write(merchant, self._list, place),
        }
        return _encode(document)


class EventStreams:
    """The open SSE streams of this process. Kafka tells that something happened; each stream reads its own pages."""

    def __init__(self, events: Events, store: Store, arrivals: Arrivals) -> None:
        self._events = events
        self._store = store
        self._arrivals = arrivals
        self._listeners: dict[str, set[asyncio.Event]] = {}
        self._places = StreamPlaces()
        self._closing = False
        self._looker: asyncio.Task[None] | None = None

    def admit(self, caller: Caller) -> None:
        """A place for one stream, until ``leave``. Raises Overloaded when there is none, or none for this caller."""
        if self._closing:
            raise errors.Overloaded("Too many streams are open.")
        self._places.take(caller)
        metrics.STREAMS.inc()

    def leave(self, caller: Caller) -> None:
        """Frees the place of one stream."""
        metrics.STREAMS.dec()
        self._places.leave(caller)

    def close(self) -> None:
        """Ends every stream; clients resume elsewhere with their last event id."""
        self._closing = True
        for wake_ups in self._listeners.values():
            for wake_up in wake_ups:
                wake_up.set()
        if self._looker is not None:
            self._looker.cancel()

    async def stream(self, caller: Caller, place: Place, may_read: MayRead) -> AsyncIterator[bytes]:
        """Server-sent events from the place on, until the token expires, the drain, or the client leaves.

        ``may_read`` raises once the caller may no longer read. It is called before each look, so nothing is sent later.
        """
        loop = asyncio.get_running_loop()
        merchant, ends_at = caller.principal, loop.time() + caller.expires_at - time.time()
        wake_up = asyncio.Event()
        # Listening begins before the first read, so an event that commits in between sets ``heard``.
        self._listeners.setdefault(merchant, set()).add(wake_up)
        self._start_looking()
        try:
            yield b"retry: 1000\n\n"
            while not self._closing and loop.time() < ends_at:
                wake_up.clear()
                more = True
                while more and not self._closing:
                    await may_read()
                    items, more = await self._events.after(merchant, place, limits.EVENTS_PAGE_LIMIT_MAX)
                    if items:
                        yield b"".join(_frame(item) for item in items)
                if not await woken(wake_up, min(limits.EVENT_STREAM_HEARTBEAT_S, ends_at - loop.time())):
                    yield _HEARTBEAT
        except (errors.Unavailable, errors.Rejected):
            return  # the client reconnects from its last event id and then hears what is wrong
        finally:
            self._listeners[merchant].discard(wake_up)
            if not self._listeners[merchant]:
                del self._listeners[merchant]

    def _start_looking(self) -> None:
        if self._looker is None or self._looker.done():
            self._looker = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        """Wakes the streams of callers that got an event since the last look."""
        topic, heard = self._events.service.events_topic, asyncio.Event()
        seen: Place | None = None
        with self._arrivals.listening(heard, topic):
            while self._listeners:
                heard.clear()  # before the look, so an event during it causes another look
                try:
                    end = await self._events.end()
                    if seen is None:
                        self._wake(list(self._listeners))
                    elif end != seen:
                        self._wake(await self._moved(seen, end))
                    seen = end
                except errors.Unavailable:
                    seen = None  # look at everything again when the database is back
                await asyncio.sleep(limits.EVENT_LOOK_INTERVAL_MS / _MS)
                await woken(heard, self._arrivals.look_within_s(topic))

    async def _moved(self, seen: Place, end: Place) -> list[str]:
        parameters = {
            "scopes": list(self._listeners),
            "topic": self._events.service.events_topic,
            "partitions": list(range(len(end))),
            "after": seen,
            "until": end,
        }
        return [scope for (scope,) in await self._store.rows("events_scopes_moved", parameters)]

    def _wake(self, merchants: list[str]) -> None:
        for merchant in merchants:
            for wake_up in self._listeners.get(merchant, ()):
                wake_up.set()


@dataclass(frozen=True, slots=True)
class EventFeed:
    """The events of one service, in pages and as streams."""

    events: Events
    streams: EventStreams


class EventFeeds:
    """The feeds of all services that show events, in the order of the services."""

    def __init__(self, feeds: Sequence[EventFeed]) -> None:
        self._feeds = {feed.events.service.name: feed for feed in feeds}

    def of(self, caller: Caller) -> EventFeed:
        """The first feed that the caller's scopes may read. Raises Forbidden if there is none."""
        for feed in self._feeds.values():
            if feed.events.service.read_scope in caller.scopes:
                return feed
        scopes = " or ".join(feed.events.service.read_scope for feed in self._feeds.values())
        raise errors.Forbidden(f"The token needs the scope {scopes}.")

    def named(self, caller: Caller, service: str) -> EventFeed:
        """The feed of a service. Raises InvalidCommand for a service without events, Forbidden without its scope."""
        feed = self._feeds.get(service)
        if feed is None:
            reason = "must be one of " + ", ".join(self._feeds)
            raise errors.InvalidCommand([{"field": "service", "reason": reason}], f"The query value service {reason}.")
        caller.require(feed.events.service.read_scope)
        return feed

    def close(self) -> None:
        """Ends every stream; clients resume elsewhere with their last event id."""
        for feed in self._feeds.values():
            feed.streams.close()


def _frame(item: Item) -> bytes:
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (item.cursor.encode(), item.type.encode(), item.data)
