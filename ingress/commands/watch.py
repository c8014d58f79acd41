"""Bounded waits until objects have left a state. All waits of a process for one kind of object share one query."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ingress import limits
from schemas import errors

if TYPE_CHECKING:
    from ingress.http.store import Store

_MS: Final = 1_000


class Watch:
    """``query`` gives the ids of those objects of ``ids`` that have moved on; it is asked only while somebody waits."""

    def __init__(self, store: Store, query: str) -> None:
        self._store = store
        self._query = query
        self._watched: dict[str, set[asyncio.Event]] = {}
        self._poller: asyncio.Task[None] | None = None

    async def moved_on(self, object_id: str, wait_s: float) -> None:
        """Returns when the object has moved on or the time is over; a database that is out costs time only."""
        event = asyncio.Event()
        self._watched.setdefault(object_id, set()).add(event)
        if self._poller is None or self._poller.done():
            self._poller = asyncio.get_running_loop().create_task(self._poll())
        try:
            await asyncio.wait_for(event.wait(), wait_s)
        except TimeoutError:
            return
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

    async def _poll(self) -> None:
        while self._watched:
            try:
                rows = await self._store.rows(self._query, {"ids": list(self._watched)})
            except errors.Unavailable:
                rows = []
            for (object_id,) in rows:
                for event in self._watched.get(object_id, ()):
                    event.set()
            await asyncio.sleep(limits.RESOURCE_POLL_INTERVAL_MS / _MS)
