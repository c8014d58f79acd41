"""Payment intents as a reader sees them: one, pages of them, and a bounded wait until one is processed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingress.coalescer import Coalescer
from schemas import errors, limits, records, rendering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingress.cursors import Cursors
    from ingress.store import Store

LIST: Final = "payment_intents"
_BEFORE_ALL: Final = (253_402_300_799_000_000, "\x7f")  # newer than any: the end of the year 9999
_MS: Final = 1_000
_metadata: Final = msgspec.json.Decoder(dict[str, str])


class Intents:
    """Reads from the table of the owner; what a caller wrote it can read at once."""

    def __init__(self, store: Store, cursors: Cursors) -> None:
        self._store = store
        self._cursors = cursors
        self._reads: Coalescer[str, records.PaymentIntent | None] = Coalescer(
            self._find_all, batch_max=limits.STORED_LOOKUPS_MAX, running_max=limits.STORED_LOOKUPS_RUNNING_MAX
        )
        self._watched: dict[str, set[asyncio.Event]] = {}
        self._poller: asyncio.Task[None] | None = None

    async def get(self, merchant: str, intent_id: str, wait_s: float = 0) -> records.PaymentIntent:
        """The intent, as soon as it is not processing or when the wait is over. NotFound unless it is the caller's."""
        intent = await self._own(merchant, intent_id)
        if wait_s > 0 and intent.state == "processing":
            await self._moved_on(intent_id, wait_s)
            intent = await self._own(merchant, intent_id)
        return intent

    async def page(self, merchant: str, limit: int, cursor: str | None) -> dict[str, Any]:
        """One page, newest first, and the cursor of the next one."""
        place = self._cursors.read(merchant, LIST, cursor, tuple[int, str]) if cursor else _BEFORE_ALL
        parameters = {"merchant": merchant, "created_at": place[0], "id": place[1], "limit": limit + 1}
        rows = await self._store.rows("intents_of_merchant", parameters)
        intents = [_intent(row) for row in rows[:limit]]
        has_more = len(rows) > limit
        last = intents[-1] if has_more else None
        return {
            "data": [rendering.payment_intent(intent) for intent in intents],
            "has_more": has_more,
            "next_cursor": self._cursors.write(merchant, LIST, (last.created_at, last.id)) if last else None,
        }

    def drain(self) -> None:
        """Ends every long poll: each answers with the state as it is."""
        for events in self._watched.values():
            for event in events:
                event.set()

    async def _own(self, merchant: str, intent_id: str) -> records.PaymentIntent:
        intent = await self._reads.ask(intent_id)
        # Rule: another caller's object is a 404, the same as one that does not exist.
        if intent is None or intent.merchant_id != merchant:
            raise errors.NotFound
        return intent

    async def _find_all(self, ids: Sequence[str]) -> list[records.PaymentIntent | None]:
        rows = await self._store.rows("intents_by_id", {"ids": list(set(ids))})
        found = {row[0]: _intent(row) for row in rows}
        return [found.get(intent_id) for intent_id in ids]

    async def _moved_on(self, intent_id: str, wait_s: float) -> None:
        """Returns when the intent left processing or the time is over. All waits of a process share one poller."""
        event = asyncio.Event()
        self._watched.setdefault(intent_id, set()).add(event)
        if self._poller is None or self._poller.done():
            self._poller = asyncio.get_running_loop().create_task(self._poll())
        try:
            await asyncio.wait_for(event.wait(), wait_s)
        except TimeoutError:
            return
        finally:
            events = self._watched.get(intent_id)
            if events is not None:
                events.discard(event)
                if not events:
                    del self._watched[intent_id]

    async def _poll(self) -> None:
        while self._watched:
            try:
                rows = await self._store.rows("intents_moved_on", {"ids": list(self._watched)})
            except errors.Unavailable:
                rows = []
            for (intent_id,) in rows:
                for event in self._watched.get(intent_id, ()):
                    event.set()
            await asyncio.sleep(limits.INTENT_POLL_INTERVAL_MS / _MS)


def _intent(row: tuple[Any, ...]) -> records.PaymentIntent:
    """A row of the intents_* queries, whose columns stand in the order of the record."""
    values = dict(zip(records.PaymentIntent.__struct_fields__, row, strict=True))
    values["metadata"] = _metadata.decode(values["metadata"])
    return records.PaymentIntent(**values)
