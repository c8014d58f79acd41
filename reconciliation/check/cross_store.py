"""Postgres, ClickHouse and Kafka from its beginning, compared per hour, currency and kind up to one common position.

The position is, per partition, the end of the outbox in the snapshot, or what ClickHouse holds when it is still behind
after a short wait. Everything up to it must be equal in all three; what comes later is not looked at.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import psycopg
from clickhouse_connect.driver.exceptions import ClickHouseError

from reconciliation import limits as reconciliation_limits
from reconciliation.contract.store_comparison import Sums, summed, totals
from schemas import stored_event
from schemas.avro import codec
from schemas.errors import Unavailable
from sinks import limits as sinks_limits
from sinks.clickhouse.plans import Fence
from sinks.postgres.sql_files import queries
from sinks.streams.intake import Position
from sinks.streams.reader import EventReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clickhouse_connect.driver.client import Client

    from reconciliation.contract.checked_service import CheckedService
    from reconciliation.contract.snapshot import Snapshot
    from reconciliation.contract.store_comparison import StoreComparison
    from sinks.kafka.connection import KafkaConnection

_SQL: Final = queries("reconciliation.check", "stores.sql")
_CURRENT: Final = "_current"
_VERSION: Final = "_version"


@dataclass(slots=True)
class KafkaTotals:
    """What one reading of the topic from offset 0 found."""

    sums: Sums = field(default_factory=dict)
    last_seqs: dict[int, int] = field(default_factory=dict)
    unreadable: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonPosition:
    """Per partition the last seq that can be compared, and how much lies beyond."""

    seqs: dict[int, int]
    behind: int


def sink_seqs(dsn: str, checked: CheckedService) -> dict[int, int]:
    """Per partition the last seq that ClickHouse holds just now."""
    with psycopg.connect(dsn, autocommit=True, connect_timeout=sinks_limits.POSTGRES_CONNECT_TIMEOUT_S) as connection:
        return _held(connection, checked)


def _held(connection: psycopg.Connection, checked: CheckedService) -> dict[int, int]:
    if checked.sink is None:
        raise ValueError(f"{checked.service} has nothing in ClickHouse")
    fence = Fence(connection, sink=checked.sink.name, topic=checked.events_topic, owner_id="check")
    return {p: at.last_seq for p, at in fence.positions(range(checked.partitions)).items()}


def common_position(dsn: str, ends: dict[int, int], checked: CheckedService) -> CommonPosition:
    """What both the snapshot and ClickHouse hold, after a bounded wait for ClickHouse to reach the snapshot's end."""
    deadline = time.monotonic() + reconciliation_limits.CHECK_SINK_WAIT_S
    with psycopg.connect(dsn, autocommit=True, connect_timeout=sinks_limits.POSTGRES_CONNECT_TIMEOUT_S) as connection:
        while True:
            held = _held(connection, checked)
            seqs = {p: min(end, held[p]) for p, end in ends.items()}
            behind = sum(ends.values()) - sum(seqs.values())
            if not behind or time.monotonic() > deadline:
                return CommonPosition(seqs=seqs, behind=behind)
            time.sleep(reconciliation_limits.CHECK_POLL_MS / 1_000)


def outbox_ends(view: Snapshot, checked: CheckedService) -> dict[int, int]:
    """The last seq of every partition in the snapshot; 0 for one without events."""
    found = dict(view.tuples(_SQL["outbox_ends"], events_topic=checked.events_topic))
    return {p: found.get(p, 0) for p in range(checked.partitions)}


def postgres_sums(
    view: Snapshot, stores: StoreComparison, sql: str, events_topic: str, bound: dict[int, int], *, is_level: bool
) -> Sums:
    """Postgres's side up to the bound; with what changes, as it is now, when the bound is the snapshot's end."""
    place: dict[str, Any] = {"events_topic": events_topic, "partitions": list(bound), "seqs": list(bound.values())}
    found = totals()
    for what, hour, currency, kind, n, a, b in view.tuples(sql, **place, is_level=is_level):
        found[what, hour, currency, kind] = [int(n), int(a), int(b)]
    if stores.decoded is not None:
        query, count_event = stores.decoded
        for (stored,) in view.tuples(query, **place):
            count_event(found, codec.decode_event(stored_event.published(stored)))
    return summed(found)


def clickhouse_sums(client: Client, stores: StoreComparison, bound: dict[int, int], *, is_level: bool) -> Sums:
    """ClickHouse's side up to the bound: duplicates count, for no merge has been waited for."""
    parameters = {"seqs": [bound[p] for p in range(len(bound))]}
    sums: Sums = {}
    try:
        for query in (*stores.clickhouse, *(stores.clickhouse_current if is_level else ())):
            for what, hour, currency, kind, n, a, b in client.query(query, parameters=parameters).result_rows:
                sums[what, int(hour), currency, kind] = (int(n), int(a), int(b))
    except (ClickHouseError, OSError) as error:
        raise Unavailable(f"ClickHouse does not answer: {str(error)[:200]}") from error
    return sums


def kafka_totals(
    kafka: KafkaConnection, checked: CheckedService, stores: StoreComparison | None, bound: dict[int, int]
) -> KafkaTotals:
    """Kafka's side: the whole topic is read, and what is up to the bound is summed up."""
    reader = EventReader(kafka, topic=checked.events_topic, client_id="check", group="check", expired="passed")
    try:
        return _read_all(reader, stores, bound, checked.partitions)
    finally:
        reader.close()


def _read_all(
    reader: EventReader, stores: StoreComparison | None, bound: dict[int, int], partitions: int
) -> KafkaTotals:
    found = totals()
    ends = reader.ends(range(partitions))
    reader.assign({p: Position() for p in range(partitions)})
    deadline = time.monotonic() + reconciliation_limits.CHECK_KAFKA_READ_TIMEOUT_S
    while any(reader.seen[p] < end and p not in unreadable(reader) for p, end in ends.items()):
        read = reader.read(sinks_limits.SINK_READ_MESSAGES_MAX, sinks_limits.SINK_READ_TIMEOUT_MS / 1_000)
        for taken in read:
            if stores is not None and taken.event.seq <= bound[taken.partition]:
                stores.add_event(found, taken.event)
        if read:
            deadline = time.monotonic() + reconciliation_limits.CHECK_KAFKA_READ_TIMEOUT_S
        elif time.monotonic() > deadline:
            raise Unavailable("Kafka stopped giving records before the end of the events topic")
    last_seqs = {p: at.last_seq for p, at in reader.positions.items()}
    return KafkaTotals(summed(found), last_seqs, len(unreadable(reader)))


def unreadable(reader: EventReader) -> set[int]:
    """The partitions that end for us at a record which cannot be read: every follower stands still there too."""
    return {p for p in reader.intake.halts if reader.intake.is_halted(p)}


def differences(postgres: Sums, clickhouse: Sums, kafka: Sums) -> Iterator[dict[str, Any]]:
    """Every hour, currency and kind on which the stores disagree. Postgres keeps no older versions of what changes."""
    for key in sorted(postgres.keys() | clickhouse.keys() | kafka.keys(), key=str):
        sides = {"clickhouse": clickhouse.get(key)}
        if not key[0].endswith(_CURRENT):
            sides["kafka"] = kafka.get(key)
        if not key[0].endswith(_VERSION):
            sides["postgres"] = postgres.get(key)
        if len(set(sides.values())) > 1:
            what, hour, currency, kind = key
            yield {"what": what, "hour": hour * 3_600, "currency": currency, "kind": kind, **sides}
