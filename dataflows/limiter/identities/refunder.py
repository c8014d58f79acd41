"""Gives charges back: found and written with the position, then taken back at the store once their lease is settled.

The row is the intent. The store does each once, by a mark that outlives whatever this process waits for; a row whose
first attempt is older than half of that is given up, and stays charged: killed between the store and the row, a process
does it again and is told the same amount. A row whose lease is not settled waits: its settlement would charge it again.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from dataflows.limiter.identities.fold import IdentityCharge, IdentityRefund, IdentityWindow
from dataflows.limiter.identities.reader import FOLLOWER
from limiter.policy.keys import signed
from limiter.policy.shard_map import ShardMap, decoded
from limiter.store.sharded_store import ShardedStore
from limiter.store.store import StoreUnavailable
from limiter.store.stored_bucket import LeasedBucket, store_keys
from schemas.limiter import limits as limiter_limits
from schemas.limiter import topics
from sinks import limits as sinks_limits
from sinks.postgres.session import NOT_HELD, Session
from sinks.postgres.sql_files import queries
from sinks.streams.record_positions import RecordPositions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dataflows.limiter.identities.reader import ChargeBatch
    from limiter.store.store import CounterStore
    from sinks.kafka.topic_offsets import Held

SQL: Final = queries("sinks.postgres.queries.limiter", "refunds.sql")
LEASES_SQL: Final = queries("sinks.postgres.queries.limiter", "leases.sql")
#: given back; its window is over, or it has leaked; nobody knows whether the store still has it, or gave it back
Outcome = Literal["credited", "over", "unknown"]
_US_PER_S: Final = 1_000_000


class Refunded(NamedTuple):
    """What one batch led to."""

    partition: int
    found: int  # that were not known
    outcomes: Counter[str]
    tokens: int
    kept: int  # charges that may still meet another one
    forgotten: int  # by this batch, for lack of room


class _Due(NamedTuple):
    lease_id: str
    identity: int
    key_hash: str
    cost: int
    charged_at_us: int
    shard: str
    terms: bytes | None
    attempted_ms: int  # ago


class LeaseRefunder:
    """All partitions of one process. Not for several threads."""

    def __init__(self, dsn: str, redis_url: str, *, encrypted: bool = False) -> None:
        self._connection = Session.connect(
            dsn,
            autocommit=True,
            connect_timeout=sinks_limits.POSTGRES_CONNECT_TIMEOUT_S,
            options=NOT_HELD,
            application_name="limiter-refunds",
        )
        self._positions = RecordPositions(FOLLOWER, topics.IDENTITIES, topics.LEASES_PARTITIONS, "limiter-refunds")
        self._begins = self._positions.claim(self._connection)
        self._windows: dict[int, IdentityWindow] = {}
        self._runner = asyncio.Runner()
        timeout_s = limiter_limits.LIMIT_LEASE_SETTLE_S
        self._counters = ShardedStore(redis_url, timeout_s=timeout_s, encrypted=encrypted)
        self._tended_at = time.monotonic()
        self._may_be_due = True  # while nothing is open, Postgres is not asked

    def positions(self) -> dict[int, int]:
        """Where to read on: from the first block that may meet another one."""
        return self._begins

    def begins(self, held: Mapping[int, Held]) -> dict[int, int]:
        """The same in a topic that holds so much, as far as it can be. Raises psycopg.Error."""
        return self._positions.begin(self._connection, held)

    def held(self, read: Callable[[], Sequence[ChargeBatch]]) -> Callable[[], Sequence[ChargeBatch]]:
        """``read``, by who says meanwhile that it follows. Raises psycopg.Error or Fenced."""
        return self._positions.held(self._connection, read)

    def refund(self, batch: ChargeBatch) -> Refunded:
        """Folds a batch in, and gives back what is due. Raises psycopg.Error or Fenced: then all is read again."""
        window = self._windows.setdefault(batch.partition, IdentityWindow())
        forgotten = window.forgotten
        found = {(r.charge.lease_id, r.charge.identity): r for r in window.take(batch.blocks)}
        new = 0
        if batch.blocks:
            new = self._write([*found.values()], window.resume_offset(batch.next_offset), batch.partition)
        outcomes, tokens = self.give_back()
        self._tend()
        return Refunded(batch.partition, new, outcomes, tokens, len(window), window.forgotten - forgotten)

    def give_back(self) -> tuple[Counter[str], int]:
        """What is due: how it ended, and what the store took back."""
        if not self._may_be_due:
            return Counter(), 0
        rows = self._connection.execute(SQL["refunds_due"], (limiter_limits.LIMIT_REFUND_AT_ONCE,)).fetchall()
        if not rows:
            self._may_be_due = self._connection.execute(SQL["refunds_open"]).fetchone() == (True,)
            return Counter(), 0
        due = [_Due(*row) for row in rows]
        ids = [[each.lease_id for each in due], [each.identity for each in due]]
        self._connection.execute(SQL["refunds_attempted"], ids)
        done = self._runner.run(self._asked(due, self._newest_map()))
        if done:
            columns: list[list[Any]] = [list(column) for column in zip(*done, strict=True)]
            self._connection.execute(SQL["refunds_done"], columns)
        return Counter(outcome for *_, outcome, _ in done), sum(credited for *_, credited in done)

    def close(self) -> None:
        """Leaves the servers."""
        self._runner.run(self._counters.close())
        self._runner.close()
        self._positions.release(self._connection)
        self._connection.close()

    def _newest_map(self) -> ShardMap:
        row = self._connection.execute(LEASES_SQL["lease_shard_map"]).fetchone()
        assert row is not None  # noqa: S101 - the migration makes the first one
        return decoded(row[0])

    async def _asked(self, due: list[_Due], shard_map: ShardMap) -> list[tuple[str, int, Outcome, int]]:
        self._counters.use(shard_map)
        answers = await asyncio.gather(*(self._one(each) for each in due))
        return [
            (each.lease_id, each.identity, *answer)
            for each, answer in zip(due, answers, strict=True)
            if answer is not None
        ]

    async def _one(self, due: _Due) -> tuple[Outcome, int] | None:
        """None: later."""
        store = self._where(due)
        if due.terms is None or store is None or due.attempted_ms > limiter_limits.LIMIT_REFUND_MARK_MS // 2:
            return "unknown", 0
        bucket = LeasedBucket(due.key_hash, store_keys(due.key_hash), due.terms)
        at_us = due.charged_at_us - limiter_limits.LIMIT_REFUND_SKEW_S * _US_PER_S
        mark = f"refund:{due.lease_id}:{due.identity}"
        try:
            given = await store.credit(bucket, due.lease_id.encode(), mark, due.cost, at_us)
        except StoreUnavailable:
            return None
        if given < 0:
            return None
        return ("credited", given) if given else ("over", 0)

    def _where(self, due: _Due) -> CounterStore | None:
        """The shard that granted the lease and charged it. None when it is not said, or has another primary since."""
        stores = self._counters.stores
        found = stores.get(due.shard) if due.shard or len(stores) > 1 else next(iter(stores.values()))
        if found is None:
            return None
        # it is said in whole seconds, of another clock
        promoted_by_s = found.shard.promoted_at + 1 + limiter_limits.LIMIT_REFUND_SKEW_S
        if promoted_by_s * _US_PER_S > due.charged_at_us:
            return None
        return found

    def _write(self, found: list[IdentityRefund], next_offset: int, partition: int) -> int:
        new = 0
        with self._connection.transaction():
            if found:
                rows = sorted((*_row(refund.charge), refund.first_lease_id) for refund in found)
                columns: list[list[Any]] = [list(column) for column in zip(*rows, strict=True)]
                new = self._connection.execute(SQL["refunds_found"], columns).rowcount
                self._may_be_due = True
            self._positions.advance(self._connection, {partition: next_offset})
        return new

    def _tend(self) -> None:
        """Every now and then: what will never be settled, and what is old."""
        if time.monotonic() - self._tended_at <= limiter_limits.LIMIT_LEASE_PRUNE_S:
            return
        self._tended_at = time.monotonic()
        self._may_be_due = True
        self._connection.execute(SQL["refunds_unsettled"], (limiter_limits.LIMIT_REFUND_WAIT_S,))
        self._connection.execute(
            SQL["refunds_prune"], (limiter_limits.LIMIT_REFUNDS_KEPT_S, limiter_limits.LIMIT_REFUNDS_PRUNED_MAX)
        )


def _row(charge: IdentityCharge) -> tuple[str, int, str, int, int, int]:
    identity, limit_key = signed(charge.identity), signed(charge.limit_key)
    return charge.lease_id, identity, charge.key_hash, limit_key, charge.cost, charge.at_us
