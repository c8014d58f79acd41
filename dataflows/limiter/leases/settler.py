"""Settles the leases of one partition: at the counter store first, then one row for each with the position.

A process that dies between the two settles again: the store does nothing the second time, and as it cannot say why, the
row then says ``charged_whole``: more than was charged, never less. A store that does not answer keeps leases open; what
it did not hear of in time it has charged whole by itself, so nothing is ever waited for longer than that.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from dataflows.limiter.leases.fold import LeaseSettlement, OpenLeases, assumed, settlement
from dataflows.limiter.leases.reader import FOLLOWER
from limiter.policy.shard_map import ShardMap, ShardsRefused, decoded
from limiter.store import store
from limiter.store.restoration import restore
from limiter.store.sharded_store import ShardedStore
from limiter.store.store import StoreUnavailable
from limiter.store.stored_bucket import LeasedBucket, store_keys
from schemas.limiter import limits as limiter_limits
from schemas.limiter import topics
from sinks import limits as sinks_limits
from sinks.postgres import database_clock
from sinks.postgres.session import NOT_HELD, Session
from sinks.postgres.sql_files import queries
from sinks.streams.record_positions import RecordPositions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from dataflows.limiter.leases.reader import LeaseBatch
    from limiter.policy.shard_map import Shard
    from limiter.store.store import CounterStore
    from limiter.stream.lease_book import LeaseReport
    from sinks.kafka.topic_offsets import Held

_log: Final = structlog.get_logger(__name__)
SQL: Final = queries("sinks.postgres.queries.limiter", "leases.sql")
_KEPT_US: Final = 11 * limiter_limits.LIMIT_LEASE_MS * 1_000  # after its end the store holds no lease for longer


class Settled(NamedTuple):
    """What one batch did."""

    partition: int
    settlements: list[LeaseSettlement]
    open: int


class LeaseSettler:
    """All partitions of one process. Not for several threads."""

    def __init__(self, dsn: str, redis_url: str, *, encrypted: bool = False) -> None:
        self._connection = Session.connect(
            dsn,
            autocommit=True,
            connect_timeout=sinks_limits.POSTGRES_CONNECT_TIMEOUT_S,
            options=NOT_HELD,
            application_name="limiter-leases",
        )
        self._positions = RecordPositions(FOLLOWER, topics.LEASES, topics.LEASES_PARTITIONS, "limiter-leases")
        self._begins = self._positions.claim(self._connection)
        self._open: dict[int, OpenLeases] = {}
        self._runner = asyncio.Runner()
        timeout_s = limiter_limits.LIMIT_LEASE_SETTLE_S
        self._counters = ShardedStore(redis_url, timeout_s=timeout_s, encrypted=encrypted)
        self._redis_url = redis_url
        self._encrypted = encrypted
        self._tended_at = time.monotonic()
        self._restored: dict[str, int] = {}  # the promotion of each shard that was told what is known

    def positions(self) -> dict[int, int]:
        """Where to read on: from the first report of the oldest open lease."""
        return self._begins

    def begins(self, held: Mapping[int, Held]) -> dict[int, int]:
        """The same in a topic that holds so much, as far as it can be. Raises psycopg.Error."""
        return self._positions.begin(self._connection, held)

    def held(self, read: Callable[[], Sequence[LeaseBatch]]) -> Callable[[], Sequence[LeaseBatch]]:
        """``read``, by who says meanwhile that it follows. Raises psycopg.Error or Fenced."""
        return self._positions.held(self._connection, read)

    def is_open(self, partition: int) -> bool:
        """Whether a lease of it is not settled."""
        return bool(self._open.get(partition))

    def settle(self, batch: LeaseBatch) -> Settled:
        """Folds a batch in and settles what is due. Raises psycopg.Error or Fenced: then everything is read again."""
        self._positions.hold(self._connection)  # who was replaced settles nothing at the store
        leases = self._open.setdefault(batch.partition, OpenLeases())
        taken = [leases.take(report, offset, appended_us) for offset, appended_us, report in batch.reports]
        done = [found for found in taken if found is not None]
        due = leases.due(batch.kafka_us, limiter_limits.LIMIT_LEASES_SETTLED_MAX)
        if due:
            given_up = {r.lease_id for r in due if batch.kafka_us > leases.over_us(r.lease_id) + _KEPT_US}
            done += self._runner.run(self._settled(due, given_up, self._newest_map()))
        self._write(batch, leases, done)
        self._tend()
        return Settled(batch.partition, done, len(leases))

    def close(self) -> None:
        """Leaves the servers."""
        self._runner.run(self._counters.close())
        self._runner.close()
        self._positions.release(self._connection)
        self._connection.close()

    def _newest_map(self) -> ShardMap:
        """Read for every batch that settles: a shard of a map that is gone refuses us."""
        row = self._connection.execute(SQL["lease_shard_map"]).fetchone()
        assert row is not None  # noqa: S101 - the migration makes the first one
        return decoded(row[0])

    async def _settled(
        self, due: Sequence[LeaseReport], given_up: Collection[str], shard_map: ShardMap
    ) -> list[LeaseSettlement]:
        self._counters.use(shard_map)
        found = await asyncio.gather(*(self._one(report, is_late=report.lease_id in given_up) for report in due))
        return [each for each in found if each is not None]

    async def _one(self, report: LeaseReport, *, is_late: bool) -> LeaseSettlement | None:
        """None when a store that may hold it does not answer: later, until it has charged the lease whole by itself."""
        bucket = LeasedBucket(report.key_hash, store_keys(report.key_hash), report.terms)
        spent = report.allowed_cost + assumed(report)
        is_silent = False
        for counters in self._where(report):
            try:
                answer = await counters.settle(bucket, report.lease_id.encode(), spent)
            except StoreUnavailable:
                is_silent = True
                continue
            if answer[0] == store.OK and answer[2] > 0:
                return settlement(report, held=True)
        if is_silent and not is_late:
            return None
        return settlement(report, held=False)

    def _where(self, report: LeaseReport) -> list[CounterStore]:
        """The shard that granted it, whoever is its primary now. All when that is not said: others do not know it."""
        named = self._counters.stores.get(report.shard)
        return [*self._counters.stores.values()] if named is None else [named]

    def _tend(self) -> None:
        """Every now and then: old rows go, and new primaries hear of what was settled since they are."""
        if time.monotonic() - self._tended_at <= limiter_limits.LIMIT_LEASE_PRUNE_S:
            return
        self._tended_at = time.monotonic()
        bounds = (limiter_limits.LIMIT_LEASE_SETTLEMENTS_KEPT_S, limiter_limits.LIMIT_LEASE_SETTLEMENTS_PRUNED_MAX)
        self._connection.execute(SQL["lease_settlements_prune"], bounds)
        now_s = database_clock.now_s(self._connection)
        for shard in self._newest_map().shards:
            age_s = now_s - shard.promoted_at
            is_due = limiter_limits.LIMIT_RESTORED_AGAIN_S <= age_s <= limiter_limits.LIMIT_RESTORED_AGAIN_UNTIL_S
            if is_due and self._restored.get(shard.name, 0) < shard.promoted:
                self._restore(shard)

    def _restore(self, shard: Shard) -> None:
        """``promote`` told it of leases that were settled then; those of lost gateways are settled now."""
        try:
            found = restore(self._connection, shard, self._redis_url, encrypted=self._encrypted)
        except ShardsRefused as error:
            _log.warning("shard_not_restored", shard=shard.name, reason=error.public)
            return
        self._restored[shard.name] = shard.promoted
        _log.info("shard_restored", shard=shard.name, **found._asdict())

    def _write(self, batch: LeaseBatch, leases: OpenLeases, done: list[LeaseSettlement]) -> None:
        """One transaction. Leases are forgotten before the position is told, and only a crash can be in between."""
        for each in done:
            leases.forget(each.lease_id)
        newest = {each.lease_id: each for each in done}  # a statement must not meet a row twice
        columns: list[list[Any]] = [list(column) for column in zip(*sorted(newest.values()), strict=True)]
        with self._connection.transaction():
            if columns:
                self._connection.execute(SQL["lease_settlements_insert"], columns)
            place = (leases.oldest_end_us(), len(leases), batch.watermark_us)
            self._connection.execute(SQL["lease_position"], (*place, batch.partition))
            resumed = {batch.partition: leases.resume_offset(batch.next_offset)}
            self._positions.advance(self._connection, resumed)
