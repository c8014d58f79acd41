"""Totals of keys out of the stream of decisions, exactly once: they move with the position, in one transaction.

Several consumers may run: one adds up, and the others stand by until it is gone. Positions are moved by who claimed
them last, so of two that read the same blocks one fails. A gateway that was killed may have sent the end of its ring,
and the next one sends it again: how far the numbers of a source are counted stands in the same transaction.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import msgspec
import psycopg
import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from limiter.stream.blocks import Block, decode
from limiter.stream.usage_idle import IdleTotals
from schemas import errors
from schemas.limiter import limits, topics
from sinks import limits as sinks_limits
from sinks.kafka.reading import next_messages
from sinks.kafka.topic_offsets import TopicOffsets
from sinks.postgres.sql_files import queries
from sinks.streams.intake import undecodable
from sinks.streams.metrics import FollowerMetrics
from sinks.streams.record_positions import RecordPositions
from sinks.streams.stand_by import StandBy
from sinks.streams.standing_still import why_still

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sinks.kafka.connection import KafkaConnection
    from sinks.streams.intake import Halt

FOLLOWER: Final = "limiter_usage"
SQL: Final = queries("sinks.postgres.queries.limiter", "policies.sql")
_GATHER_S: Final = 0.2
_BLOCKS_MAX: Final = 200
_SUMS: Final = ("row", "allowed", "denied", "allowed_cost", "newest")
_SHADOWS: Final = ("row", "count", "at")
_log: Final = structlog.get_logger(__name__)

Source = tuple[str, int]  # a recorder, and the partition of its blocks


class Total:
    """What one key was allowed and denied in a batch, and what policies in shadow mode would have refused of it."""

    __slots__ = ("allowed", "allowed_cost", "as_of", "denied", "policy", "shadows", "version")

    def __init__(self) -> None:
        self.shadows: dict[str, tuple[int, int]] = {}  # by policy: how many, and as of when
        self.allowed = self.denied = self.allowed_cost = self.version = self.as_of = 0
        self.policy = ""


def totals(blocks: Sequence[tuple[int, Block]], counted: dict[Source, int]) -> dict[str, Total]:
    """The totals of blocks by limit key; what is below ``counted`` is left out, and ``counted`` moves on.

    A duplicate consumed nothing and is not counted.
    """
    found: dict[str, Total] = {}
    for partition, block in blocks:
        place = (block.source, partition)
        part = block.after(counted.get(place, 0))
        counted[place] = part.until
        sums = part.summed()
        for number, allowed, denied, cost, newest in zip(*(sums[name].tolist() for name in _SUMS), strict=True):
            if allowed or denied:
                row = block.rows[number]
                total = found.setdefault(row.key, Total())
                total.allowed += allowed
                total.denied += denied
                total.allowed_cost += cost
                total.policy, total.version = row.policy_id, max(total.version, row.policy_version)
                total.as_of = max(total.as_of, newest)
        for number, count, at in zip(*(part.shadows[name].tolist() for name in _SHADOWS), strict=True):
            row = block.rows[number]
            shadows = found.setdefault(row.key, Total()).shadows
            before, as_of = shadows.get(row.policy_id, (0, 0))
            shadows[row.policy_id] = before + count, max(as_of, at)
    return found


class UsageStream:
    """Reads decisions and adds them up until ``stop``."""

    def __init__(self, kafka: KafkaConnection, dsn: str, client_id: str) -> None:
        self._dsn = dsn
        self._name = client_id
        self._offsets = TopicOffsets(kafka, topics.DECISIONS)
        self._stop = threading.Event()
        self._consumer = Consumer(kafka.consumer(client_id, "limiter-usage", **{"auto.offset.reset": "error"}))
        self._topic = kafka.topic(topics.DECISIONS)
        self._trouble: str | None = "Postgres or Kafka is away"
        self._halts: dict[int, Halt] = {}
        self._metrics = FollowerMetrics(FOLLOWER)
        self._idle = IdleTotals()
        self._stand_by = StandBy(dsn, FOLLOWER, topics.DECISIONS)

    def why_not_ready(self) -> str | None:
        """None while totals move, here or at another process, or nothing waits for them; any thread may ask."""
        if self._stand_by.is_waiting:
            return None
        return self._trouble or why_still(self._halts)

    def stop(self) -> None:
        """The loop ends after the batch that is under way."""
        self._stop.set()

    def run(self) -> None:
        """Reads until ``stop``; servers that are away are waited for."""
        while not self._stop.is_set():
            try:
                self._stand_by.wait(self._stop)
                with psycopg.connect(self._dsn, autocommit=True, connect_timeout=5) as connection:
                    positions = RecordPositions(FOLLOWER, topics.DECISIONS, topics.DECISIONS_PARTITIONS, self._name)
                    try:
                        self._follow(connection, positions)
                    finally:
                        positions.release(connection)
            except (psycopg.OperationalError, psycopg.InterfaceError, KafkaException, errors.Fenced) as error:
                self._trouble = f"totals do not move: {str(error).partition(chr(10))[0]}"
                _log.warning("usage_restarts", cause=type(error).__name__, error=str(error).partition("\n")[0])
                self._stop.wait(limits.LIMIT_STORE_RETRY_S)
        self._consumer.close()

    def _follow(self, connection: psycopg.Connection[Any], positions: RecordPositions) -> None:
        if self._stop.is_set():
            return
        held = self._offsets.ask(positions.claim(connection)).answer()
        begins = positions.begin(connection, held)
        self._halts = {}
        self._consumer.assign([TopicPartition(self._topic, p, offset) for p, offset in begins.items()])
        if all(held[partition].high <= offset for partition, offset in begins.items()):
            self._trouble = None  # else the first batch tells: what failed may fail again
        while not self._stop.is_set():
            blocks: list[tuple[int, Block]] = []
            after: dict[int, int] = {}
            positions.hold(connection)
            self._idle.let_go(connection)
            for message in next_messages(self._consumer, _BLOCKS_MAX, sinks_limits.KAFKA_IDLE_WAIT_S, _GATHER_S):
                self._take(message, blocks, after)
            if after:
                self._add(connection, blocks, positions, after)
            if after or self._halts:
                self._trouble = None
            self._metrics.halted(self._halts)

    def _take(self, message: Any, blocks: list[tuple[int, Block]], after: dict[int, int]) -> None:
        """A partition stands still before what cannot be read: the totals behind it would lack it for ever."""
        if error := message.error():
            if error.fatal() or error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - its name
                raise KafkaException(error)
            _log.warning("usage_kafka_error", error=error.str())
            return
        partition, offset = message.partition(), message.offset()
        if partition in self._halts:
            return
        try:
            blocks.append((partition, decode(message.value() or b"")))
        except msgspec.DecodeError as error:
            self._halts[partition] = undecodable(partition, offset, str(error))
            self._consumer.pause([TopicPartition(self._topic, partition)])
            return
        after[partition] = offset + 1

    def _add(
        self,
        connection: psycopg.Connection[Any],
        blocks: list[tuple[int, Block]],
        positions: RecordPositions,
        after: dict[int, int],
    ) -> None:
        """Adds a batch and moves its positions. Raises errors.Fenced when another consumer has them."""
        with connection.transaction():
            positions.advance(connection, after)
            sources = sorted({block.source for _, block in blocks})
            rows = connection.execute(SQL["usage_sources"], (sources, sorted(after))).fetchall()
            counted = {(source, partition): until for source, partition, until in rows}
            found = sorted(totals(blocks, counted).items())  # two consumers lock keys in one order
            if counted:
                columns = zip(*((*place, until) for place, until in sorted(counted.items())), strict=True)
                connection.execute(SQL["usage_source_counted"], [list(column) for column in columns])
            if added := [(key, total) for key, total in found if total.allowed or total.denied]:
                connection.execute(SQL["usage_add"], _columns(added))
            if shadows := [
                (key, policy, *refused) for key, total in found for policy, refused in sorted(total.shadows.items())
            ]:
                connection.execute(SQL["usage_add_shadows"], [list(column) for column in zip(*shadows, strict=True)])


def _columns(added: Sequence[tuple[str, Total]]) -> tuple[Any, ...]:
    found = [total for _, total in added]
    return (
        [key for key, _ in added],
        [t.policy for t in found],
        [t.version for t in found],
        [t.allowed for t in found],
        [t.denied for t in found],
        [t.allowed_cost for t in found],
        [t.as_of for t in found],
    )
