"""The durable inbox of the gateway. An event that ``keep`` returned for is on disk, and is one row for ever."""

from __future__ import annotations

from collections.abc import Sequence

from ingress.http.coalescer import Coalescer
from ingress.http.store import Store
from ingress.payments.webhooks.events import ProviderEvent
from schemas.payments import limits


class Inbox:
    """Stores events over connections of its own: their commits wait for the disk, those of other notes do not."""

    def __init__(self, dsn: str) -> None:
        self._store = Store(dsn, synchronous_commit="on")
        self._coalescer: Coalescer[Sequence[ProviderEvent], int] = Coalescer(
            self._insert,
            batch_max=limits.WEBHOOK_REQUESTS_PER_COMMIT_MAX,
            running_max=limits.WEBHOOK_COMMITS_RUNNING_MAX,
        )

    async def open(self) -> None:
        """Starts the pool; a database that is out is met later."""
        await self._store.open()

    async def close(self) -> None:
        """Closes every connection."""
        await self._store.close()

    async def keep(self, events: Sequence[ProviderEvent]) -> int:
        """Returns once every event is durable: how many are now and were not before.

        Raises Unavailable when their durability is not known: then the processor has to tell them again.
        """
        return await self._coalescer.ask(events)

    async def _insert(self, requests: Sequence[Sequence[ProviderEvent]]) -> list[int]:
        # What came in while another commit waited for the disk shares the next one.
        events = {(e.processor, e.provider_event_id): e for request in requests for e in request}
        rows = list(events.values())
        parameters = {
            "processors": [e.processor for e in rows],
            "provider_event_ids": [e.provider_event_id for e in rows],
            "event_types": [e.event_type for e in rows],
            "references": [e.reference for e in rows],
            "bodies": [e.body for e in rows],
        }
        new = set(await self._store.rows("provider_events_insert", parameters))
        return [_claimed(request, new) for request in requests]


def _claimed(request: Sequence[ProviderEvent], new: set[tuple[str, ...]]) -> int:
    """How many of a request's events are new; the first request that has one takes it out."""
    identities = {(e.processor, e.provider_event_id) for e in request}
    found = identities & new
    new -= found
    return len(found)
