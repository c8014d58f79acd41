"""Postgres, ClickHouse and Kafka from its beginning, compared per hour, currency and kind up to one common position.

The position is, per partition, the end of the outbox in the snapshot, or what ClickHouse holds when it is still behind
after a short wait. Everything up to it must be equal in all three; what comes later is not looked at.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import psycopg
from clickhouse_connect.driver.exceptions import ClickHouseError

from schemas import codec, limits
from schemas.errors import Unavailable
from sinks.clickhouse.plans import Fence
from sinks.postgres.sql_files import queries
from sinks.streams.intake import Position
from sinks.streams.reader import EventReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clickhouse_connect.driver.client import Client

    from reconciliation.contract.snapshot import Snapshot
    from schemas.records import Event
    from sinks.kafka.connection import KafkaConnection

_HOUR_US: Final = 3_600_000_000
_SQL: Final = queries("reconciliation.check", "cross_store.sql")

_CLICKHOUSE_SIDES: Final = (
    *("clickhouse_events", "clickhouse_ledger", "clickhouse_intents", "clickhouse_attempts"),
    *("clickhouse_refunds", "clickhouse_disputes", "clickhouse_payouts", "clickhouse_accounts"),
    *("clickhouse_made_refunds", "clickhouse_made_disputes", "clickhouse_made_journal", "clickhouse_made_payouts"),
)
#: only at a position that is Postgres's own end: older versions of what changes are not there
_CLICKHOUSE_CURRENT: Final = (
    *("clickhouse_current_refunds", "clickhouse_current_disputes", "clickhouse_current_payouts"),
)
_CURRENT: Final = "_current"
_VERSION: Final = "_version"

Key = tuple[str, int, str, str]  # what is counted, hour since the epoch, currency, kind
Sums = dict[Key, tuple[int, int, int]]  # rows, and two sums


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """Where the other two stores are, and how many partitions there are."""

    kafka: KafkaConnection
    clickhouse: Client
    events_topic: str
    partitions: int


@dataclass(slots=True)
class KafkaTotals:
    """What one reading of the topic from offset 0 found."""

    sums: Sums = field(default_factory=dict)
    last_seqs: dict[int, int] = field(default_factory=dict)
    unreadable: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonPosition:
    """Per partition the last seq that can be compared, and what ClickHouse did while it was waited for."""

    seqs: dict[int, int]
    behind: int
    moved: int


def sink_seqs(dsn: str, partitions: int, events_topic: str) -> dict[int, int]:
    """Per partition the last seq that ClickHouse holds just now."""
    with psycopg.connect(dsn, autocommit=True, connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S) as connection:
        held = Fence(connection, topic=events_topic, owner_id="check").positions(range(partitions))
    return {p: at.last_seq for p, at in held.items()}


def common_position(dsn: str, ends: dict[int, int], events_topic: str) -> CommonPosition:
    """What both the snapshot and ClickHouse hold, after a bounded wait for ClickHouse to reach the snapshot's end."""
    deadline = time.monotonic() + limits.CHECK_SINK_WAIT_S
    with psycopg.connect(dsn, autocommit=True, connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S) as connection:
        fence = Fence(connection, topic=events_topic, owner_id="check")
        first = sum(at.last_seq for at in fence.positions(range(len(ends))).values())
        while True:
            held = fence.positions(range(len(ends)))
            seqs = {p: min(end, held[p].last_seq) for p, end in ends.items()}
            behind = sum(ends.values()) - sum(seqs.values())
            if not behind or time.monotonic() > deadline:
                moved = sum(at.last_seq for at in held.values()) - first
                return CommonPosition(seqs=seqs, behind=behind, moved=moved)
            time.sleep(limits.CHECK_POLL_MS / 1_000)


def outbox_ends(view: Snapshot, partitions: int) -> dict[int, int]:
    """The last seq of every partition in the snapshot; 0 for one without events."""
    found = dict(view.tuples(_SQL["outbox_ends"]))
    return {p: found.get(p, 0) for p in range(partitions)}


def postgres_sums(view: Snapshot, sql: str, bound: dict[int, int], *, is_level: bool) -> Sums:
    """Postgres's side up to the bound; with what changes, as it is now, when the bound is the snapshot's end."""
    place = {"partitions": list(bound), "seqs": list(bound.values())}
    sums: defaultdict[Key, list[int]] = defaultdict(lambda: [0, 0, 0])
    for what, hour, currency, kind, n, a, b in view.tuples(sql, **place, is_level=is_level):
        sums[what, hour, currency, kind] = [int(n), int(a), int(b)]
    for (payload,) in view.tuples(_SQL["updated_events"], **place):
        _count(sums, codec.decode_event(payload))
    return {key: (n, a, b) for key, (n, a, b) in sums.items()}


def clickhouse_sums(client: Client, bound: dict[int, int], *, is_level: bool) -> Sums:
    """ClickHouse's side up to the bound: duplicates count, for no merge has been waited for."""
    parameters = {"seqs": [bound[p] for p in range(len(bound))]}
    sums: Sums = {}
    try:
        for name in (*_CLICKHOUSE_SIDES, *(_CLICKHOUSE_CURRENT if is_level else ())):
            for what, hour, currency, kind, n, a, b in client.query(_SQL[name], parameters=parameters).result_rows:
                sums[what, int(hour), currency, kind] = (int(n), int(a), int(b))
    except (ClickHouseError, OSError) as error:
        raise Unavailable(f"ClickHouse does not answer: {str(error)[:200]}") from error
    return sums


def kafka_totals(stores: Stores, bound: dict[int, int]) -> KafkaTotals:
    """Kafka's side: the whole topic is read, and what is up to the bound is summed up."""
    reader = EventReader(stores.kafka, topic=stores.events_topic, client_id="check", group="check", expired="passed")
    try:
        return _read_all(reader, bound, stores.partitions)
    finally:
        reader.close()


def _read_all(reader: EventReader, bound: dict[int, int], partitions: int) -> KafkaTotals:
    totals: defaultdict[Key, list[int]] = defaultdict(lambda: [0, 0, 0])
    ends = reader.ends(range(partitions))
    reader.assign({p: Position() for p in range(partitions)})
    deadline = time.monotonic() + limits.CHECK_KAFKA_READ_TIMEOUT_S
    while any(reader.seen[p] < end and p not in unreadable(reader) for p, end in ends.items()):
        read = reader.read(limits.SINK_READ_MESSAGES_MAX, limits.SINK_READ_TIMEOUT_MS / 1_000)
        for taken in read:
            if taken.event.seq <= bound[taken.partition]:
                add_event(totals, taken.event)
        if read:
            deadline = time.monotonic() + limits.CHECK_KAFKA_READ_TIMEOUT_S
        elif time.monotonic() > deadline:
            raise Unavailable("Kafka stopped giving records before the end of the events topic")
    last_seqs = {p: at.last_seq for p, at in reader.positions.items()}
    sums = {key: (n, a, b) for key, (n, a, b) in totals.items()}
    return KafkaTotals(sums, last_seqs, len(unreadable(reader)))


def unreadable(reader: EventReader) -> set[int]:
    """The partitions that end for us at a record which cannot be read: every follower stands still there too."""
    return {p for p in reader.intake.halts if reader.intake.is_halted(p)}


def add_event(totals: defaultdict[Key, list[int]], event: Event) -> None:
    """Counts one event as every store counts it."""
    body: dict[str, Any] = event.body
    intent = body["payment_intent"]
    hour = event.occurred_at // _HOUR_US
    _count(totals, event)
    if intent:
        versions = totals["intent_version", intent["updated_at"] // _HOUR_US, intent["currency"], intent["state"]]
        _add(versions, intent["amount_received"], intent["amount_capturable"])
    for attempt in (body["processor_attempt"], body.get("caused_by")):
        if attempt:
            place = totals["attempt_version", attempt["updated_at"] // _HOUR_US, attempt["currency"], attempt["status"]]
            _add(place, attempt["amount"], attempt["attempt"])
    _add_parts(totals, body)
    if event.operation == "post_journal":
        _add(totals["journal_entry", hour, "", ""], 0, 0)
    for txn in body["ledger_txns"]:
        for entry in txn["entries"]:
            place = totals["ledger_line", txn["effective_at"] // _HOUR_US, entry["currency"], txn["kind"]]
            _add(place, entry["debit"], entry["credit"])


def _count(totals: defaultdict[Key, list[int]], event: Event) -> None:
    """The event itself, with the currency of its payment at that time."""
    body: dict[str, Any] = event.body
    intent = body["payment_intent"]
    currency = intent["currency"] if intent else ""
    _add(totals["event", event.occurred_at // _HOUR_US, currency, event.operation], event.seq, 0)


def _add_parts(totals: defaultdict[Key, list[int]], body: dict[str, Any]) -> None:
    """Counts what an event carries besides the payment; events of older versions carry less."""
    for what in ("refund", "dispute", "payout"):
        if part := body.get(what):
            place = totals[f"{what}_version", part["updated_at"] // _HOUR_US, part["currency"], part["state"]]
            _add(place, part["amount"], part["version"])
            if part["version"] == 1:
                kind = part["processor"] if what == "dispute" else ""
                _add(totals[what, part["created_at"] // _HOUR_US, part["currency"], kind], part["amount"], 0)
    if account := body.get("account"):
        _add(totals["account_version", account["updated_at"] // _HOUR_US, "", account["state"]], account["version"], 0)


def _add(total: list[int], first: int, second: int) -> None:
    total[0] += 1
    total[1] += first
    total[2] += second


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
