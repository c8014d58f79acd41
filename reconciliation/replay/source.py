"""Where a replay reads: the events topic of Kafka, or the outbox in Postgres that it was published from."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from reconciliation import limits as reconciliation_limits
from schemas import stored_event
from schemas.avro import codec
from sinks import limits as sinks_limits
from sinks.streams.intake import UNKNOWN_SEQ, Accepted, Position
from sinks.streams.reader import EventReader, read_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import psycopg

    from sinks.kafka.connection import KafkaConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where a replay begins; at most one of the fields is set, none means the beginning."""

    time: datetime | None = None
    offsets: Mapping[int, int] | None = None  # of the outbox: seqs
    checkpoint: Mapping[int, Position] | None = None

    @property
    def is_zero(self) -> bool:
        """True when the projection is rebuilt from nothing."""
        return self.time is None and self.offsets is None and self.checkpoint is None


class Source(Protocol):
    """Gives the events of some partitions, each once and in order."""

    def begin(self, start: Start, partitions: range) -> list[int]:
        """Goes to the start and returns the partitions that are replayed."""

    def read(self, ends: Mapping[int, int]) -> Iterator[list[Accepted]]:
        """The events from where the last reading ended up to and including these seqs."""

    def close(self) -> None:
        """Lets go of the connection."""


class KafkaSource:
    """The events topic, from any offset or time on."""

    def __init__(self, kafka: KafkaConnection, topic: str) -> None:
        self._reader = EventReader(kafka, topic=topic, client_id="replay", group="replay", expired="passed")

    def begin(self, start: Start, partitions: range) -> list[int]:
        """A start by time or offset takes the first event that lies there, whatever its seq."""
        if start.checkpoint is not None:
            positions = dict(start.checkpoint)
        elif start.offsets is not None:
            positions = {p: Position(offset, UNKNOWN_SEQ) for p, offset in start.offsets.items()}
        elif start.time is not None:
            offsets = self._reader.offsets_at(partitions, int(start.time.timestamp() * 1_000))
            positions = {p: Position(offset, UNKNOWN_SEQ) for p, offset in offsets.items()}
        else:
            positions = {p: Position() for p in partitions}
        ends = self._reader.ends(list(positions))
        # Past the end there is nothing whose seq could be taken; such a partition has nothing to replay.
        positions = {p: at for p, at in positions.items() if at.last_seq != UNKNOWN_SEQ or at.next_offset < ends[p]}
        self._reader.assign(positions)
        return sorted(positions)

    def read(self, ends: Mapping[int, int]) -> Iterator[list[Accepted]]:
        """Waits a bounded time for events that are not in Kafka yet. Raises errors.Unavailable then."""
        return read_until(self._reader, ends, sinks_limits.SINK_RECOVERY_READ_TIMEOUT_S)

    def close(self) -> None:
        """Closes the consumer."""
        self._reader.close()


_FIRST = "select partition, min(seq) from outbox where topic = %s and occurred_at >= %s group by partition"
_EVENTS = (
    "select partition, seq, payload from outbox where topic = %s and partition = %s"
    " and seq > %s and seq <= %s order by seq"
)


class OutboxSource:
    """The outbox as it is in Postgres: nothing that Kafka did to the events can show here."""

    def __init__(self, connection: psycopg.Connection, topic: str) -> None:
        self._connection = connection
        self._topic = topic
        self._last_seqs: dict[int, int] = {}

    def begin(self, start: Start, partitions: range) -> list[int]:
        """A start by offset means seqs here."""
        if start.checkpoint is not None:
            self._last_seqs = {p: at.last_seq for p, at in start.checkpoint.items()}
        elif start.offsets is not None:
            self._last_seqs = {p: max(seq - 1, 0) for p, seq in start.offsets.items()}
        elif start.time is not None:
            found = self._connection.execute(_FIRST, (self._topic, start.time.astimezone(UTC))).fetchall()
            self._last_seqs = {p: seq - 1 for p, seq in found}
        else:
            self._last_seqs = dict.fromkeys(partitions, 0)
        return sorted(self._last_seqs)

    def read(self, ends: Mapping[int, int]) -> Iterator[list[Accepted]]:
        """Streams in chunks; a partition after the other."""
        for partition, last_seq in self._last_seqs.items():
            yield from self._partition(partition, last_seq, ends[partition])
            self._last_seqs[partition] = max(last_seq, ends[partition])

    def refreshed(self, connection: psycopg.Connection) -> OutboxSource:
        """The same source, at the same place, through a connection that sees what was committed since."""
        later = OutboxSource(connection, self._topic)
        later._last_seqs = dict(self._last_seqs)
        return later

    def _partition(self, partition: int, last_seq: int, end: int) -> Iterator[list[Accepted]]:
        with self._connection.transaction(), closing(self._connection.cursor("replay_outbox")) as cursor:
            cursor.execute(_EVENTS, (self._topic, partition, last_seq, end))
            while rows := cursor.fetchmany(reconciliation_limits.CHECK_FETCH_ROWS):
                yield [_accepted(*row) for row in rows]

    def close(self) -> None:
        """The connection is its caller's."""


def _accepted(partition: int, seq: int, stored: Any) -> Accepted:
    value = stored_event.published(bytes(stored))
    return Accepted(partition, seq, value, codec.decode_event(value))
