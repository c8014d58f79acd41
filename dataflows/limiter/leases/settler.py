"""Settles the leases of one partition: at the counter store first, then one row for each with the position.

A process that dies between the two settles again: the store does nothing the second time, and as it cannot say why, the
row then says ``charged_whole``: more than was charged, never less. A store that does not answer keeps leases open; what
it did not hear of in time it has charged whole by itself, so nothing is ever waited for longer than that.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psycopg

from dataflows.limiter.leases.fold import OpenLeases, Settlement, assumed, settlement
from limiter import store
from limiter.buckets import LeasedBucket, store_keys
from limiter.store import CounterStore, StoreUnavailable
from schemas import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflows.limiter.leases.reader import LeaseBatch
    from limiter.lease_book import LeaseReport

SQL: Final = queries("sinks.postgres.queries", "limiter_leases.sql")
_KEPT_US: Final = 11 * limits.LIMIT_LEASE_MS * 1_000  # after its end the store holds no lease for longer


class Settled(NamedTuple):
    """What one batch did."""

    partition: int
    settlements: list[Settlement]
    open: int


class LeaseSettler:
    """All partitions of one process. Not for several threads."""

    def __init__(self, dsn: str, redis_url: str) -> None:
        self._connection = psycopg.connect(
            dsn, autocommit=True, connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S, application_name="limiter-leases"
        )
        self._open: dict[int, OpenLeases] = {}
        self._runner = asyncio.Runner()
        self._store = CounterStore(redis_url, timeout_s=limits.LIMIT_LEASE_SETTLE_S)
        self._pruned_at = time.monotonic()

    def positions(self) -> dict[int, int]:
        """Where to read on: from the first report of the oldest open lease."""
        return dict(self._connection.execute(SQL["lease_positions"]).fetchall())

    def settle(self, batch: LeaseBatch) -> Settled:
        """Folds a batch in and settles what is due. Raises psycopg.Error: then everything is read again."""
        leases = self._open.setdefault(batch.partition, OpenLeases())
        taken = [leases.take(report, offset) for offset, report in batch.reports]
        done = [found for found in taken if found is not None]
        due = leases.due(batch.watermark_us, limits.LIMIT_LEASES_SETTLED_MAX)
        if due:
            done += self._runner.run(self._settled(due, batch.watermark_us))
        self._write(batch, leases, done)
        self._prune()
        return Settled(batch.partition, done, len(leases))

    def close(self) -> None:
        """Leaves the servers."""
        self._runner.run(self._store.close())
        self._runner.close()
        self._connection.close()

    async def _settled(self, due: Sequence[LeaseReport], watermark_us: int) -> list[Settlement]:
        found = await asyncio.gather(*(self._one(report, watermark_us) for report in due))
        return [each for each in found if each is not None]

    async def _one(self, report: LeaseReport, watermark_us: int) -> Settlement | None:
        """None when the store does not answer: later, until it has charged the lease whole by itself."""
        try:
            bucket = LeasedBucket(report.key_hash, store_keys(report.key_hash), report.terms)
            spent = report.allowed_cost + assumed(report)
            answer = await self._store.settle(bucket, report.lease_id.encode(), spent)
        except StoreUnavailable:
            return settlement(report, held=False) if watermark_us > report.ends_at_us + _KEPT_US else None
        return settlement(report, held=answer[0] == store.OK and answer[2] > 0)

    def _prune(self) -> None:
        if time.monotonic() - self._pruned_at > limits.LIMIT_LEASE_PRUNE_S:
            self._pruned_at = time.monotonic()
            bounds = (limits.LIMIT_LEASE_SETTLEMENTS_KEPT_S, limits.LIMIT_LEASE_SETTLEMENTS_PRUNED_MAX)
            self._connection.execute(SQL["lease_settlements_prune"], bounds)

    def _write(self, batch: LeaseBatch, leases: OpenLeases, done: list[Settlement]) -> None:
        """One transaction. Leases are forgotten before the position is told, and only a crash can be in between."""
        for each in done:
            leases.forget(each.lease_id)
        newest = {each.lease_id: each for each in done}  # a statement must not meet a row twice
        columns: list[list[Any]] = [list(column) for column in zip(*sorted(newest.values()), strict=True)]
        with self._connection.transaction():
            if columns:
                self._connection.execute(SQL["lease_settlements_insert"], columns)
            place = (leases.resume_offset(batch.next_offset), leases.oldest_end_us(), len(leases), batch.watermark_us)
            self._connection.execute(SQL["lease_position"], (*place, batch.partition))
