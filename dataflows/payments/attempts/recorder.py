"""Writes what came of turns back to the table, many at a time.

It waits a moment on purpose: when the owner's event is back before a fact is recorded as reported, the row goes
straight to done and one write is saved. A crash meanwhile costs a query under the same identity, nothing else.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING

from schemas import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dataflows.payments.attempts.dispatch_store import DispatchStore
    from dataflows.payments.attempts.durably import Durably
    from dataflows.payments.attempts.settlement import Record


class Recorder:
    """Collects records and writes them in batches, about ten times a second."""

    def __init__(self, store: DispatchStore, durably: Durably) -> None:
        self._store = store
        self._durably = durably
        self._records: dict[str, Record] = {}

    def add(self, record: Record) -> None:
        """To be called when the record's fact is durable, not before."""
        self._records[record.operation_id] = record

    def settled(self, operation_ids: Iterable[str]) -> None:
        """The owner has settled these and their rows say so: nothing is left to record."""
        for operation_id in operation_ids:
            self._records.pop(operation_id, None)

    async def run(self, is_last: Callable[[], bool]) -> None:
        """Records until ``is_last`` says that nothing more will be added, and everything is written."""
        while True:
            was_last = is_last()
            while self._records:
                await self._write()
            if was_last:
                return
            await asyncio.sleep(limits.ATTEMPT_RECORD_INTERVAL_MS / 1_000)

    async def _write(self) -> None:
        batch = list(islice(self._records.values(), limits.ATTEMPT_RECORD_BATCH_MAX))
        await self._durably("record", lambda: self._store.record(batch))
        for record in batch:
            if self._records.get(record.operation_id) is record:  # not replaced by a later turn meanwhile
                del self._records[record.operation_id]
