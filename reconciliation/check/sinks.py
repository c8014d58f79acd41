"""Sinks that stand still: each is behind for a while, which is no gap; that it does not move at all is one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from reconciliation import limits as reconciliation_limits
from reconciliation.services import SINK_ENDS
from schemas.errors import Unavailable
from sinks import limits as sinks_limits
from sinks.clickhouse.plans import Fence
from sinks.clickhouse.services import SINKS
from sinks.kafka.topic_offsets import TopicOffsets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from reconciliation.contract.checked_service import CheckedService
    from reconciliation.contract.snapshot import Snapshot
    from sinks.clickhouse.declared_sink import DeclaredSink
    from sinks.kafka.connection import KafkaConnection


class Fed(NamedTuple):
    """One sink, and where what it takes ends: a seq by partition, or of a topic without seqs an offset."""

    name: str
    topic: str
    ends: Mapping[int, int]
    by_offset: bool = False


def fed(view: Snapshot, sql: str, kafka: KafkaConnection, services: Sequence[CheckedService]) -> list[Fed]:
    """The sinks of these services. Raises KafkaException when Kafka does not say what it holds."""
    of_events = [
        Fed(one.sink.name, one.events_topic, dict(view.tuples(sql, events_topic=one.events_topic)))
        for one in services
        if one.sink is not None
    ]
    names = {one.service for one in services}
    others = [sink for sink in SINKS.values() if sink.service in names and not sink.keeps_events]
    return of_events + [_of_records(view, kafka, sink) for sink in others]


def _of_records(view: Snapshot, kafka: KafkaConnection, sink: DeclaredSink) -> Fed:
    if sink.name in SINK_ENDS:
        return Fed(sink.name, sink.topic, dict(view.tuples(SINK_ENDS[sink.name])))
    held = TopicOffsets(kafka, sink.topic).ask(range(sink.partitions)).answer()
    return Fed(sink.name, sink.topic, {p: found.high for p, found in held.items()}, by_offset=True)


def standing_still(dsn: str, sinks: Sequence[Fed]) -> Iterator[dict[str, Any]]:
    """The sinks that have not reached their ends after a bounded wait, and have not moved."""
    deadline = time.monotonic() + reconciliation_limits.CHECK_SINK_WAIT_S
    try:
        with psycopg.connect(
            dsn, autocommit=True, connect_timeout=sinks_limits.POSTGRES_CONNECT_TIMEOUT_S
        ) as connection:
            first = {sink.name: _at(connection, sink) for sink in sinks}
            waiting = [sink for sink in sinks if behind(sink, first[sink.name])]
            while waiting and time.monotonic() < deadline:
                time.sleep(reconciliation_limits.CHECK_POLL_MS / 1_000)
                now = {sink.name: _at(connection, sink) for sink in waiting}
                waiting = [s for s in waiting if behind(s, now[s.name]) and now[s.name] == first[s.name]]
    except psycopg.OperationalError as error:
        raise Unavailable(f"Postgres does not answer: {str(error).strip()}") from error
    for sink in waiting:
        missing = sum(behind(sink, first[sink.name]).values())
        yield {"sink": sink.name, "behind": missing, "reason": "the ClickHouse sink stands still"}


def behind(sink: Fed, at: Mapping[int, int]) -> dict[int, int]:
    """How many records it lacks, by partition."""
    return {p: end - at.get(p, 0) for p, end in sink.ends.items() if end > at.get(p, 0)}


def _at(connection: psycopg.Connection, sink: Fed) -> dict[int, int]:
    fence = Fence(connection, sink=sink.name, topic=sink.topic, owner_id="check")
    positions = fence.positions(range(max(sink.ends, default=-1) + 1))
    return {p: at.next_offset if sink.by_offset else at.last_seq for p, at in positions.items()}
