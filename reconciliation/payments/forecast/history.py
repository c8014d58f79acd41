"""The commands that lie in Kafka since a time, each with what its owner committed; a bounded number of them.

A command says what its caller said and what the ingress saw of it (velocity, the card); the stored result says what
became of it. Neither is changed, and no group's position is moved.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.cimpl import KafkaException

from schemas import errors, stored_answer
from schemas.avro import codec
from schemas.payments import limits as payments_limits
from schemas.payments import topics
from sinks import limits as sinks_limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from schemas.records import Command
    from sinks.kafka.connection import KafkaConnection

_SQL: Final = queries("reconciliation.payments.forecast", "history.sql")
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_POLL_S: Final = 0.2


class Decided(msgspec.Struct, frozen=True):
    """One command that was committed, and its result as its caller got it."""

    command: Command
    result: dict[str, Any]


class History:
    """The commands of a time; read once. Afterwards it knows how many there were and whether the bound ended it."""

    def __init__(self, kafka: KafkaConnection, connection: psycopg.Connection, operations: frozenset[str]) -> None:
        self._consumer = Consumer(kafka.consumer("forecast", "forecast"))
        self._topic = kafka.topic(topics.COMMANDS)
        self._connection = connection
        self._operations = operations
        self.records = 0
        self.is_partial = False

    def read(self, since_ms: int, records_max: int) -> Iterator[list[Decided]]:
        """Lists of commands, in the order of each partition, up to what lies there now. Raises errors.Unavailable."""
        try:
            left = self._assign(since_ms)
            heard_at = time.monotonic()
            while left and self.records < records_max:
                if time.monotonic() - heard_at > sinks_limits.SINK_RECOVERY_READ_TIMEOUT_S:
                    raise errors.Unavailable("Kafka does not give what lies in it.")
                messages = self._consumer.consume(
                    min(payments_limits.FORECAST_BATCH_MAX, records_max - self.records), _POLL_S
                )
                places: list[tuple[int, int, Command]] = []
                for message in messages:
                    partition, offset = message.partition(), message.offset()
                    if message.error() or partition is None or offset is None:
                        continue
                    heard_at = time.monotonic()
                    if offset >= left.get(partition, 0):
                        left.pop(partition, None)
                        continue
                    self.records += 1
                    if offset + 1 >= left[partition]:
                        del left[partition]
                    if (command := self._wanted(message.value() or b"")) is not None:
                        places.append((partition, offset, command))
                if places:
                    yield self._decided(places)
            self.is_partial = bool(left)
        except KafkaException as error:
            raise errors.Unavailable(f"Kafka does not answer: {error.args[0].str()}") from error
        finally:
            self._consumer.close()

    def _assign(self, since_ms: int) -> dict[int, int]:
        """Starts at that time; the end of each partition that has something after it."""
        wanted = [TopicPartition(self._topic, p, since_ms) for p in range(topics.PARTITIONS)]
        starts = self._consumer.offsets_for_times(wanted, timeout=sinks_limits.KAFKA_ADMIN_TIMEOUT_S)
        ends: dict[int, int] = {}
        for at in starts:
            marks = self._consumer.get_watermark_offsets(at, timeout=sinks_limits.KAFKA_ADMIN_TIMEOUT_S)
            if marks is None:
                raise errors.Unavailable("Kafka does not answer: no watermarks in time")
            if 0 <= at.offset < marks[1]:
                ends[at.partition] = marks[1]
        self._consumer.assign([at for at in starts if at.partition in ends])
        return ends

    def _wanted(self, value: bytes) -> Command | None:
        try:
            command = codec.decode_command(value)
        except errors.Corrupt:  # parked, not carried out
            return None
        return command if command.operation in self._operations else None

    def _decided(self, places: list[tuple[int, int, Command]]) -> list[Decided]:
        rows = self._connection.execute(
            _SQL["decided"].encode(),
            {
                "scopes": [command.scope for *_, command in places],
                "keys": [command.idempotency_key for *_, command in places],
                "partitions": [partition for partition, *_ in places],
                "offsets": [offset for _, offset, _ in places],
            },
        ).fetchall()
        results = {
            (partition, offset): _decode(stored_answer.whole(bytes(response), event))["result"]
            for partition, offset, response, event in rows
        }
        return [Decided(c, results[p, o]) for p, o, c in places if (p, o) in results]
