"""Where the time of a single command went, from stamps that the system leaves anyway.

The load generator knows when a command was due, sent and answered; its Kafka record says when the ingress made it and
when the producer took it; its stored result says when the owner decided. All processes share one clock here.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import psycopg
from confluent_kafka import Consumer, TopicPartition

from compose.proof import limits as proof_limits
from compose.proof.bench.http.latency import Latencies
from schemas.avro import codec
from schemas.errors import Corrupt
from schemas.payments import topics
from sinks import limits as sinks_limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compose.proof.bench.http.single import Trip
    from sinks.kafka.connection import KafkaConnection

STAGES: Final = {
    "waits_for_a_connection": "due until sent: the load generator had no free connection",
    "http_in": "sent until the ingress made the command: network, token, body, look-up of a stored result",
    "to_producer": "until the Kafka producer took it",
    "kafka_and_queue": "until the owner decided: Kafka, the poll, the batch before it",
    "commit_and_answer": "until the answer was here: commit in Postgres, reply topic, HTTP",
}
_QUERIES: Final = queries("compose.proof.bench.http", "queries.sql")
_US: Final = 1_000_000


def stages(trips: Mapping[str, Trip], merchant: str, dsn: str, kafka: KafkaConnection) -> dict[str, Any]:
    """Percentiles of every stage over the sampled commands."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        rows = connection.execute(_QUERIES["decided"], {"merchant": merchant, "keys": list(trips)}).fetchall()
    made = _commands(kafka, [(partition, offset) for _, partition, offset, _ in rows])
    found = {name: Latencies() for name in STAGES}
    for key, partition, offset, decided_us in rows:
        if (stamps := made.get((partition, offset))) is None:
            continue
        trip, (issued_us, taken_us) = trips[key], stamps
        marks = (trip.due, trip.sent, issued_us, max(issued_us, taken_us), decided_us, trip.answered)
        for latencies, begin, end in zip(found.values(), marks, marks[1:], strict=False):
            latencies.record(max(0, end - begin) / _US)
    return {name: {"what": STAGES[name], **latencies.summary()} for name, latencies in found.items()}


def _commands(kafka: KafkaConnection, places: list[tuple[int, int]]) -> dict[tuple[int, int], tuple[int, int]]:
    """When the command at each place was made and taken by the producer, in microseconds."""
    wanted = set(places)
    first: dict[int, int] = {}
    for partition, offset in wanted:
        first[partition] = min(offset, first.get(partition, offset))
    if not first:
        return {}
    found: dict[tuple[int, int], tuple[int, int]] = {}
    consumer = Consumer(kafka.consumer("bench-http", "bench-http-stages"))
    try:
        consumer.assign([TopicPartition(kafka.topic(topics.COMMANDS), p, offset) for p, offset in first.items()])
        deadline = time.monotonic() + proof_limits.DEMO_KAFKA_READ_TIMEOUT_S
        while len(found) < len(wanted) and time.monotonic() < deadline:
            for message in consumer.consume(sinks_limits.SINK_READ_MESSAGES_MAX, 0.2):
                place = (message.partition(), message.offset())
                value = message.value()
                if message.error() is None and value is not None and place in wanted:
                    try:
                        issued_us = codec.decode_command(value).issued_at
                    except Corrupt:
                        continue
                    found[place] = (issued_us, message.timestamp()[1] * 1_000)
    finally:
        consumer.close()
    return found
