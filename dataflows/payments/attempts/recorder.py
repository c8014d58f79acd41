"""Writes what came of turns back to the table, many at a time.

It keeps a told fact for a moment on purpose: when the owner's event is back before it is recorded as reported, the row
goes straight to done and one write is saved. A crash meanwhile costs a query under the same identity, nothing else.
What postpones an attempt is written at once: only then does it become due again.
"""

from __future__ import annotations

import asyncio
import time
from itertools import islice
from typing import TYPE_CHECKING

from schemas.payments import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dataflows.payments.attempts.dispatch_store import DispatchStore
    from dataflows.payments.attempts.settlement import DispatchRecord
    from dataflows.payments.attempts.statement_retry import StatementRetry


class Recorder:
    """Collects records and writes them in batches, about ten times a second."""

    def __init__(
        self, store: DispatchStore, retried: StatementRetry, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._retried = retried
        self._clock = clock
        self._records: dict[str, DispatchRecord] = {}
        self._told_at: dict[str, float] = {}  # of those that wait for their event
        self._wakes = asyncio.Event()

    def add(self, record: DispatchRecord) -> None:
        """To be called when the record's fact is durable, not before."""
        self._records[record.operation_id] = record
        self._wakes.set()
        self._told_at.pop(record.operation_id, None)
        if record.status == "reported":
            self._told_at[record.operation_id] = self._clock()

    def settled(self, operation_ids: Iterable[str]) -> None:
        """The owner has settled these and their rows say so: nothing is left to record."""
        for operation_id in operation_ids:
            self._records.pop(operation_id, None)
            self._told_at.pop(operation_id, None)

    def wake(self) -> None:
        """``run`` asks now whether anything more will be added."""
        self._wakes.set()

    async def run(self, is_last: Callable[[], bool]) -> None:
        """Records until ``is_last`` says that nothing more will be added, and everything is written."""
        while True:
            was_last = is_last()
            while batch := self.due(everything=was_last):
                await self._write(batch)
            if was_last:
                return
            if not self._records:
                await self._wakes.wait()
            self._wakes.clear()
            await asyncio.sleep(limits.ATTEMPT_RECORD_INTERVAL_MS / 1_000)

    def due(self, *, everything: bool) -> list[DispatchRecord]:
        """What is to be written now, at most one batch of it."""
        if everything:
            due = iter(self._records.values())
        else:
            told_before = self._clock() - limits.ATTEMPT_REPORTED_AFTER_MS / 1_000
            due = (r for r in self._records.values() if self._told_at.get(r.operation_id, told_before) <= told_before)
        return list(islice(due, limits.ATTEMPT_RECORD_BATCH_MAX))

    async def _write(self, batch: list[DispatchRecord]) -> None:
        await self._retried("record", lambda: self._store.record(batch))
        for record in batch:
            if self._records.get(record.operation_id) is record:  # not replaced by a later turn meanwhile
                del self._records[record.operation_id]
                self._told_at.pop(record.operation_id, None)
