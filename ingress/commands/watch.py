"""Bounded waits until objects leave a state. All waits of a process for one kind of object share one query."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ingress import limits
from ingress.commands.arrivals import woken
from schemas import errors

if TYPE_CHECKING:
    from ingress.commands.arrivals import Arrivals
    from ingress.http.store import Store

_MS: Final = 1_000


class Watch:
    """``query`` returns those of ``ids`` whose objects have moved on.

    It is asked while somebody waits: at an event in ``topic`` of an object's aggregate, and now and then.
    """

    def __init__(self, store: Store, query: str, arrivals: Arrivals, topic: str) -> None:
        self._store = store
        self._query = query
        self._arrivals = arrivals
        self._topic = topic
        self._heard = asyncio.Event()
        self._watched: dict[str, set[asyncio.Event]] = {}
        self._looker: asyncio.Task[None] | None = None

    async def moved_on(self, object_id: str, aggregate_key: str, wait_s: float) -> None:
        """Returns when the object has moved on or the time is over; a database that is out only costs time."""
        event = asyncio.Event()
        self._watched.setdefault(object_id, set()).add(event)
        self._heard.set()  # the object may have moved on since it was read
        if self._looker is None or self._looker.done():
            self._looker = asyncio.get_running_loop().create_task(self._look())
        try:
            with self._arrivals.listening(self._heard, self._topic, aggregate_key):
                await woken(event, wait_s)
        finally:
            events = self._watched.get(object_id)
            if events is not None:
                events.discard(event)
                if not events:
                    del self._watched[object_id]

    def drain(self) -> None:
        """Ends every wait: each caller answers with the state as it is."""
        for events in self._watched.values():
            for event in events:
                event.set()

    async def _look(self) -> None:
        while self._watched:
            self._heard.clear()  # before the look, so an event during it causes another look
            try:
                rows = await self._store.rows(self._query, {"ids": list(self._watched)})
            except errors.Unavailable:
                rows = []
            for (object_id,) in rows:
                for event in self._watched.get(object_id, ()):
                    event.set()
            await asyncio.sleep(limits.RESOURCE_LOOK_INTERVAL_MS / _MS)
            await woken(self._heard, self._arrivals.look_within_s(self._topic))
