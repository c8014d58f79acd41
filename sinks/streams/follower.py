"""Follows a topic of events as one of several processes: Kafka shares the partitions, Postgres holds the positions.

A partition goes on only from its row of ``stream_position``. It stands still, with its position kept, before what
cannot be read or is missing in Kafka; the other partitions go on. A process that was replaced while it slept is fenced.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import psycopg
import structlog
from confluent_kafka import Consumer, KafkaError
from confluent_kafka.cimpl import KafkaException, TopicPartition

from schemas import errors
from sinks import limits
from sinks.kafka.reading import gathering, next_messages
from sinks.kafka.topic_offsets import TopicOffsets
from sinks.postgres.session import Session
from sinks.streams.intake import UNKNOWN_SEQ, Intake, Position, older_database, other_topic
from sinks.streams.newest_events import NewestEvents
from sinks.streams.positions import SESSION, StreamPositions, Taken
from sinks.streams.standing_still import why_still

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from confluent_kafka import Message

    from sinks.kafka.connection import KafkaConnection
    from sinks.streams.metrics import FollowerMetrics

_log = structlog.get_logger(__name__)
_OUTAGES: Final = (psycopg.OperationalError, psycopg.InterfaceError, KafkaException, errors.Unavailable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """The follower's name, its topic and its consumer group.

    Events are read as soon as they come, further ones at the soonest ``gather_ms`` later, all with one fetch: a fetch
    for each would cost the broker more than the events themselves.
    """

    follower: str
    topic: str
    group: str
    gather_ms: int = 0


class Follower:
    """One member of the group, for one thread at a time. It joins with the first ``read``."""

    def __init__(
        self, kafka: KafkaConnection, dsn: str, followed: Followed, client_id: str, metrics: FollowerMetrics
    ) -> None:
        self._kafka = kafka
        self._dsn = dsn
        self._followed = followed
        self._client_id = client_id
        self._metrics = metrics
        self._topic = kafka.topic(followed.topic)
        self._offsets = TopicOffsets(kafka, followed.topic)
        self._newest = NewestEvents(kafka, followed.topic, client_id, followed.group)
        self._positions = StreamPositions(followed.follower, followed.topic, client_id)
        self._intake = Intake()
        self._epochs: dict[int, int] = {}
        self._starts: dict[int, int] = {}  # the offset to read from; after the position, if Kafka has deleted that
        self._done: dict[int, Taken] = {}  # done by the handler; the position is stored soon
        self._store_at = 0.0
        self._join_at = 0.0
        self._consumer: Consumer | None = None
        self._connection: psycopg.Connection | None = None
        self._failure: Exception | None = None  # raised by a callback; raised again where messages are read
        self._assignments = 0
        self._trouble: str | None = "no partitions yet"

    def why_not_ready(self) -> str | None:
        """The reason if one of our partitions does not go on; None otherwise. Any thread may ask."""
        return self._trouble or why_still(self._intake.halts)

    def read(self, events_max: int, timeout_s: float) -> list[Taken]:
        """The next events by partition; none after a wait, or if a server is away: then it begins again.

        The handler ends what it has read with ``mark_done`` or with ``advance``.
        """
        try:
            if self._consumer is None:
                if (wait_s := self._join_at - time.monotonic()) > 0:
                    time.sleep(min(wait_s, timeout_s))
                    return []
                self._consumer = self._joined()
            self._store_done(only_when_due=True)
            taken = self._read(self._consumer, events_max, timeout_s)
        except (*_OUTAGES, errors.Fenced) as error:
            self.begin_again(error)
            return []
        self._metrics.halted(self._intake.halts)
        return taken

    def mark_done(self, taken: Iterable[Taken]) -> None:
        """Notes that these are durable: their positions are stored soon. After a kill before that they come again."""
        for one in taken:
            known = self._done.get(one.partition)
            self._done[one.partition] = one if known is None else known.and_then(one)

    def advance(self, connection: psycopg.Connection, taken: Sequence[Taken]) -> None:
        """Stores the positions after these in the handler's own transaction, so their effects count exactly once.

        Raises errors.Fenced if another process has a partition; then roll back and ``begin_again``.
        """
        self._positions.advance(connection, taken)

    def begin_again(self, error: Exception) -> None:
        """Leaves the group and joins it again a little later: reading goes on from the stored positions."""
        self._metrics.restarts.inc()
        self._trouble = f"not following {self._followed.topic}: {str(error).partition(chr(10))[0]}"
        _log.warning(
            "stream_begins_again", follower=self._followed.follower, kind=type(error).__name__, error=str(error)
        )
        self._leave()
        self._join_at = time.monotonic() + limits.STREAM_JOIN_AGAIN_S

    def close(self) -> None:
        """Stores the positions of what is done, and leaves the group at once."""
        self._leave()

    def _joined(self) -> Consumer:
        settings = {
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": limits.OWNER_SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": limits.OWNER_HEARTBEAT_MS,
            "auto.offset.reset": "error",  # a position that is not in the topic halts its partition
            **(gathering(self._followed.gather_ms) if self._followed.gather_ms else {}),
        }
        consumer = Consumer(self._kafka.consumer(self._client_id, self._followed.group, **settings))
        consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        return consumer

    def _read(self, consumer: Consumer, events_max: int, timeout_s: float) -> list[Taken]:
        assignments = self._assignments
        gather_s = limits.STREAM_GATHER_S if self._followed.gather_ms else 0.0
        messages = next_messages(consumer, events_max, timeout_s, gather_s)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._assignments != assignments:  # some may belong to an assignment that ended: read them again
            met = {message.partition() for message in messages}
            self._rewind(consumer, [partition for partition in self._intake.positions if partition in met])
            return []
        before = {partition: at.last_seq for partition, at in self._intake.positions.items()}
        events = [taken for message in messages if (taken := self._take(consumer, message)) is not None]
        return [
            Taken(
                partition, self._epochs[partition], before[partition], mine, Position(mine[-1].offset + 1, at.last_seq)
            )
            for partition, at in self._intake.positions.items()
            if (mine := [taken for taken in events if taken.partition == partition])
        ]

    def _rewind(self, consumer: Consumer, partitions: Iterable[int]) -> None:
        for partition in partitions:
            if not self._intake.is_halted(partition):
                begins = max(self._intake.positions[partition].next_offset, self._starts.get(partition, 0))
                consumer.seek(TopicPartition(self._topic, partition, begins))

    def _take(self, consumer: Consumer, message: Message) -> Any:
        if error := message.error():
            self._judge(consumer, message.partition(), error)
            return None
        partition = _number(message.partition())
        taken = self._intake.take(partition, _number(message.offset()), message.value() or b"")
        if self._intake.is_halted(partition):
            consumer.pause([TopicPartition(self._topic, partition)])
        return taken

    def _judge(self, consumer: Consumer, partition: Any, error: KafkaError) -> None:
        """Handles an error of Kafka: our position is not in the topic, or the library mends it by itself."""
        if error.fatal():
            raise KafkaException(error)
        if partition in self._intake.positions and error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
            held = self._offsets.ask([partition]).answer()[partition]
            start = self._intake.compare(partition, held.low, held.high)
            if start is not None:  # after this error nothing is fetched, and a seek has no effect
                self._starts[partition] = start
                consumer.incremental_unassign([TopicPartition(self._topic, partition)])
                consumer.incremental_assign([TopicPartition(self._topic, partition, start)])
        else:
            _log.warning("stream_kafka_error", follower=self._followed.follower, error=error.str())

    # --- which partitions are ours ------------------------------------------------------------------------------

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        numbers = [p.partition for p in partitions]
        self._assignments += 1
        starts: dict[int, int] = {}
        try:
            starts = self._claim(consumer, numbers)
            self._starts |= starts
            self._trouble = None
        except _OUTAGES as error:
            self._failure = error
        consumer.incremental_assign([TopicPartition(self._topic, p, starts.get(p, 0)) for p in numbers])
        if still := [p for p in numbers if self._intake.is_halted(p)]:
            consumer.pause([TopicPartition(self._topic, p) for p in still])
        _log.info("stream_partitions_assigned", follower=self._followed.follower, partitions=numbers)

    def _claim(self, consumer: Consumer, partitions: list[int]) -> dict[int, int]:
        """Takes partitions. Returns the offset to read from, for each that can be read."""
        if not partitions:
            return {}
        connection = self._postgres()
        starts = self._positions.known(connection, partitions)
        if new := [p for p in partitions if p not in starts]:
            starts |= self._group_positions(consumer, new)
        held, told = self._offsets.ask(partitions).answer(), self._newest.seqs(partitions)
        committed = self._positions.committed(connection, partitions)  # after Kafka has answered: it knows no more
        topic_id = held[partitions[0]].topic_id
        claims = self._positions.claim(connection, starts, topic_id)
        self._epochs |= {partition: claim.epoch for partition, claim in claims.items()}
        self._intake.begin({partition: claim.position for partition, claim in claims.items()})
        same = {partition for partition, claim in claims.items() if claim.topic_id == topic_id}
        self._intake.halts |= {partition: other_topic(partition) for partition in claims.keys() - same}
        older = {p: older_database(p, last, told[p]) for p, last in committed.items() if told.get(p, last) > last}
        self._intake.halts |= older
        begins = {p: self._intake.compare(p, held[p].low, held[p].high) for p in same - older.keys()}
        return {partition: offset for partition, offset in begins.items() if offset is not None}

    def _group_positions(self, consumer: Consumer, partitions: list[int]) -> dict[int, Position]:
        """Positions of releases before ``stream_position``, which committed offsets in the group and knew no seq."""
        asked = [TopicPartition(self._topic, p) for p in partitions]
        found = consumer.committed(asked, timeout=limits.KAFKA_ADMIN_TIMEOUT_S)
        return {p.partition: Position(p.offset, UNKNOWN_SEQ) if p.offset > 0 else Position() for p in found}

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        try:
            self._store_done({p.partition for p in partitions})
        except (*_OUTAGES, errors.Fenced) as error:  # the next process sees some events again, which is harmless
            _log.warning("stream_positions_not_stored", follower=self._followed.follower, error=str(error))
        self._forget({p.partition for p in partitions})

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._forget({p.partition for p in partitions})  # another process has them already

    def _forget(self, partitions: Collection[int]) -> None:
        self._assignments += 1
        self._intake.forget(partitions)
        for partition in partitions:
            for known in (self._done, self._epochs, self._starts):
                known.pop(partition, None)

    def _store_done(self, partitions: Collection[int] | None = None, *, only_when_due: bool = False) -> None:
        wanted = [p for p in self._done if partitions is None or p in partitions]
        if not wanted or (only_when_due and time.monotonic() < self._store_at):
            return
        self._store_at = time.monotonic() + limits.STREAM_STORE_INTERVAL_S
        self._positions.advance(self._postgres(), [self._done[p] for p in wanted])
        for partition in wanted:
            del self._done[partition]

    def _leave(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()  # revokes our partitions
        self._forget(list(self._intake.positions))
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _postgres(self) -> psycopg.Connection:
        if self._connection is None or self._connection.broken or self._connection.closed:
            self._connection = Session.connect(
                self._dsn,
                autocommit=True,
                application_name=self._client_id,
                options=SESSION,
                connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S,
                keepalives_idle=limits.POSTGRES_KEEPALIVE_S,
                keepalives_interval=limits.POSTGRES_KEEPALIVE_S,
                keepalives_count=3,
            )
        return self._connection


def _number(value: int | None) -> int:
    """The partition or offset, which every sent message has."""
    if value is None:
        raise errors.InvariantViolation("a record of Kafka has no place")
    return value
