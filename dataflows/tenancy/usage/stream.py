"""The topic of usage as a dataflow: what one read brings is counted in one transaction with the positions.

Killed anywhere, it reads on from the positions, and what was counted is known by its identity. Of several processes one
counts, and the others stand by until it left or said nothing for ``STREAM_LEASE_S``. Whoever takes over fences the one
before: its transaction ends at the position. After one that took too long less is read at once.
"""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

import psycopg

from dataflows.owner import fail_points
from dataflows.owner.partition.next_offset import Place
from dataflows.owner.senders import Senders
from dataflows.owner.transaction.size import TransactionSize
from dataflows.streams.positioned_stream import PositionedStream
from dataflows.streams.read_ahead import ReadAhead
from dataflows.streams.strict_positions import StrictPositions, halt_of
from dataflows.tenancy.usage.counting import SQL, Counted, count
from dataflows.tenancy.usage.metrics import count as count_metrics
from dataflows.tenancy.usage.reader import UsageBatch, UsageReader, batch_size
from dataflows.tenancy.usage.refused import keep
from schemas import errors
from schemas.tenancy.usage_topic import USAGE, USAGE_PARTITIONS
from sinks import limits as sinks_limits
from sinks.kafka.topic_offsets import TopicOffsets
from sinks.postgres import owner_connection
from sinks.streams.metrics import FollowerMetrics
from sinks.streams.stand_by import StandBy
from sinks.streams.standing_still import why_still

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dataflows.owner.senders import Keys
    from dataflows.streams.positioned_stream import Fold, Read
    from dataflows.streams.strict_positions import Begin
    from schemas.errors import InvariantViolation
    from sinks.kafka.connection import KafkaConnection
    from sinks.postgres.owner_connection import OwnerConnection
    from sinks.streams.intake import Halt

FOLLOWER: Final = "tenancy_metering"


class UsageCounter:
    """Counts for one process. Not for several threads."""

    def __init__(self, connection: OwnerConnection, topic: TopicOffsets, size: TransactionSize) -> None:
        self._connection = connection
        self._size = size
        self._positions = StrictPositions(FOLLOWER, USAGE, USAGE_PARTITIONS, FOLLOWER)
        connection.execute(SQL["counted_begin"].encode(), {"partitions": list(range(USAGE_PARTITIONS))})
        try:
            self.begins = self._positions.claim(connection, topic)
        except BaseException:
            self.close()  # nobody waits for who does not begin
            raise

    def count(self, batch: UsageBatch) -> Counted:
        """Counts a batch and moves its positions: both or neither. Raises psycopg.Error, or Fenced."""
        self._positions.hold(self._connection)
        began = time.monotonic()
        try:
            with self._connection.transaction():
                counted = count(self._connection, batch.usage)
                keep(self._connection, batch.refused)
                fail_points.reach("metering_before_position")
                self._positions.advance(self._connection, batch.ends)
        except psycopg.Error:
            self._size.failed(batch.records, time.monotonic() - began)
            raise
        except errors.Fenced:  # perhaps because it took too long, after who last said so long before that it counts
            self._size.failed(batch.records, time.monotonic() - began + sinks_limits.STREAM_LEASE_S / 4)
            raise
        self._size.committed(batch.records)
        fail_points.reach("metering_after_commit")
        return counted

    def held(self, read: Callable[[], Sequence[UsageBatch]]) -> Callable[[], Sequence[UsageBatch]]:
        """``read``, by who says meanwhile that it counts. Raises psycopg.Error or Fenced."""
        return self._positions.held(self._connection, read)

    def close(self) -> None:
        """Whoever stands by may count at once."""
        self._positions.release(self._connection)


class UsageStream(PositionedStream[UsageBatch, Counted]):
    """Counts what the topic of usage brings, until ``stop``; while another process does, it stands by."""

    def __init__(self, kafka: KafkaConnection, dsn: str, keys: Keys, client_id: str) -> None:
        super().__init__("metering", count_metrics, StandBy(dsn, FOLLOWER, USAGE))
        self._kafka = kafka
        self._dsn = dsn
        self._senders = Senders(keys)
        self._client_id = client_id
        self._size = batch_size()
        self._halts: dict[int, Halt] = {}
        self._metrics = FollowerMetrics(FOLLOWER)

    def why_not_ready(self) -> str | None:
        """None while all partitions are counted, or another process sees to them; any thread may ask."""
        if not self.is_ready:
            return "Postgres or Kafka is away"
        return why_still(self._halts)

    @contextmanager
    def opened(self) -> Iterator[tuple[Read[UsageBatch], Fold[UsageBatch, Counted]]]:
        """From the positions on."""
        with (
            closing(owner_connection.connect(self._dsn, self._client_id)) as connection,
            closing(UsageCounter(connection, TopicOffsets(self._kafka, USAGE), self._size)) as counter,
        ):
            self._halted({p: halt_of(p, b.place, b.fault) for p, b in counter.begins.items() if b.fault})
            try:
                with (
                    closing(self._reader(counter.begins)) as reader,
                    closing(ReadAhead(reader.read, "metering")) as ahead,
                ):
                    yield counter.held(ahead.read), counter.count
            finally:
                self._halted({})  # whoever counts next tells

    def _reader(self, begins: Mapping[int, Begin]) -> UsageReader:
        return UsageReader(self._kafka, self._client_id, begins, self._senders, self._stand_still, self._size)

    def _stand_still(self, partition: int, place: Place, fault: InvariantViolation) -> None:
        self._halted(self._halts | {partition: halt_of(partition, place, fault)})

    def _halted(self, halts: dict[int, Halt]) -> None:
        self._halts = halts
        self._metrics.halted(halts)
