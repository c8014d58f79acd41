"""How many records one transaction takes: fewer after one that took too long, more again when all is well.

The database ends a transaction that exceeds its bound (a slow disk, a lock that somebody holds). The same records in
one transaction would fail again, for ever. One object outlives the restarts of its owner.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import structlog

from dataflows import limits
from dataflows.owner.batch import PartitionBatch
from sinks import limits as sinks_limits

_MS = 1_000
log = structlog.get_logger()


class TransactionSize:
    """Shared by the lanes of one owner; any of them may call it. Nobody reads more than ``whole`` records at once."""

    def __init__(self, whole: int = limits.BATCH_MESSAGES_MAX) -> None:
        self._whole = whole
        self.records: int | None = None  # None = as many as were read
        self._well = 0  # transactions of that size in a row
        self._lock = threading.Lock()

    def takes(self, records: int) -> bool:
        """Whether so many records may be committed together."""
        bound = self.records
        return bound is None or records <= bound

    @property
    def at_most(self) -> int:
        """How many records to read for the next transaction."""
        return self.records or self._whole

    def pieces(self, batch: PartitionBatch) -> Iterator[PartitionBatch]:
        """The batch in pieces that may be committed one after another."""
        while not self.takes(len(batch.records)):
            bound = self.records or len(batch.records)
            head, rest = batch.records[:bound], batch.records[bound:]
            yield PartitionBatch(batch.partition, head, batch.epoch, left=batch.left, noisy=batch.noisy)
            batch = PartitionBatch(batch.partition, rest, batch.epoch, left=batch.left)
        yield batch

    def failed(self, records: int, took_s: float) -> None:
        """Notes that so many records failed together after so long; past the time bound they were too many."""
        if took_s * _MS < sinks_limits.OWNER_TRANSACTION_TIMEOUT_MS:
            return
        with self._lock:
            before = records if self.records is None else min(self.records, records)
            self.records, self._well = max(1, before // 2), 0
        log.warning("transaction_too_long", records=records, took_s=round(took_s, 1), next_records=self.records)

    def committed(self, records: int) -> None:
        """Notes that a transaction of so many records succeeded; after some of full size the next ones are larger."""
        bound = self.records
        if bound is None or records < bound:
            return
        with self._lock:
            self._well += 1
            if self._well >= limits.TRANSACTIONS_UNTIL_LARGER:
                larger = 2 * bound
                self.records, self._well = (None if larger >= self._whole else larger), 0
