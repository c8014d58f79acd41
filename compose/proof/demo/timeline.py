"""One payment through every stop, from the stamps that each stop leaves anyway.

HTTP, Kafka, owner, attempt, processor, fact, ledger, outbox, Kafka again, ClickHouse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import httpx
import psycopg
from psycopg.rows import dict_row

from compose.proof.demo.kafka_records import Place, record_times, records_of_key
from schemas.fields.currency import format_minor
from schemas.payments import limits, topics
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from compose.proof.demo.tally import StoryOutcome
    from compose.settings.addresses import Addresses

_QUERIES: Final = queries("compose.proof.kit", "evidence.sql")
_CLICKHOUSE_TABLES: Final = {
    "events": "aggregate_key",
    "ledger_lines": "aggregate_key",
    "payment_intents": "id",
    "processor_attempts": "intent_id",
}

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stop:
    """Something that happened to the payment. ``has_time`` False: the place keeps no time, only the order is known."""

    at: int  # microseconds since the epoch
    place: str
    what: str
    has_time: bool = True


def timeline(told: StoryOutcome, addresses: Addresses) -> list[Stop]:
    """All stops of the payment in the order in which they happened."""
    intent = told.intent_id
    with psycopg.connect(addresses.postgres_reader_dsn, row_factory=dict_row) as connection:
        commands = connection.execute(_QUERIES["timeline_commands"], {"intent": intent}).fetchall()
        attempts = connection.execute(_QUERIES["timeline_attempts"], {"intent": intent}).fetchall()
        postings = connection.execute(_QUERIES["timeline_postings"], {"intent": intent}).fetchall()
        events = connection.execute(_QUERIES["timeline_events"], {"intent": intent, "topic": topics.EVENTS}).fetchall()
    stops = [
        *_http(told),
        *_commands(commands, addresses),
        *_attempts(attempts, addresses.simulator_urls),
        *_postings(postings),
        *_events(events, told, addresses),
        *_clickhouse(events, intent, addresses.clickhouse_url),
    ]
    return sorted(stops, key=lambda stop: stop.at)


def _http(told: StoryOutcome) -> Iterator[Stop]:
    for exchange in told.journal.exchanges:
        if exchange.method != "POST":
            continue
        path = exchange.path.replace(told.intent_id, "{id}")
        answer = str(exchange.status) if exchange.status else "no answer"
        lost = ", which got lost" if exchange.was_lost else ""
        took = (exchange.answered_at - exchange.sent_at) / 1_000
        yield Stop(exchange.sent_at, "HTTP request", f"POST {path}")
        yield Stop(exchange.answered_at, "HTTP answer", f"{answer}{lost} after {took:.1f} ms")


def _commands(rows: list[Row], addresses: Addresses) -> Iterator[Stop]:
    places = [Place(topics.COMMANDS, row["partition"], row["offset"]) for row in rows]
    times = record_times(addresses.kafka, places)
    for row, place in zip(rows, places, strict=True):
        name = "fact" if row["merchant_id"].startswith("processor:") else "command"
        where = f"{place.topic} partition {place.partition} offset {place.offset}"
        if place in times:
            yield Stop(times[place], f"Kafka {name}", f"{row['operation']} at {where}")
        others = row["batch_commands"] - 1
        batch = f"in a batch with {others} others" if others else "alone in its batch"
        yield Stop(row["at_us"], "owner", f"{row['operation']} {row['status']}, transaction {row['batch']}, {batch}")


def _attempts(rows: list[Row], processor_urls: Mapping[str, str]) -> Iterator[Stop]:
    for row in rows:
        amount = f"{format_minor(row['amount'], row['currency'])} {row['currency']}"
        yield Stop(row["at_us"], "attempt", f"{row['operation_id']}: {row['kind']} {amount}, durable before any call")
        doubt = f", {row['unknown_count']} times unknown" if row["unknown_count"] else ""
        yield Stop(row["dispatched_us"], "dispatch", f"{row['operation_id']}: sent {row['send_count']} times{doubt}")
        booked = _booked(processor_urls[row["processor"]], row["operation_id"])
        yield Stop(row["dispatched_us"] + 1, "processor's book", f"{row['operation_id']}: {booked}", has_time=False)


def _booked(processor_url: str, operation_id: str) -> str:
    answer = httpx.get(f"{processor_url}/v1/operations/{operation_id}", timeout=limits.CHECK_BOOK_TIMEOUT_S)
    if answer.status_code != httpx.codes.OK:
        return "not in the book"
    booked = answer.json()
    return f"{booked['status']} {format_minor(booked['amount'], booked['currency'])} {booked['currency']}"


def _postings(rows: list[Row]) -> Iterator[Stop]:
    for row in rows:
        yield Stop(row["at_us"], "ledger", f"{row['kind']}: {', '.join(row['lines'])}")


def _events(rows: list[Row], told: StoryOutcome, addresses: Addresses) -> Iterator[Stop]:
    for row in rows:
        yield Stop(row["at_us"], "outbox", f"event {row['event_id']}, seq {row['seq']}, version {row['version']}")
    if not rows:
        return
    published = records_of_key(
        addresses.kafka,
        (topics.EVENTS, rows[0]["partition"]),
        told.intent_id,
        since_us=told.began_at,
        count=len(rows),
    )
    for place, at in published:
        yield Stop(at, "Kafka event", f"{place.topic} partition {place.partition} offset {place.offset}")


def _clickhouse(rows: list[Row], intent: str, url: str) -> Iterator[Stop]:
    client = ClickHouseConnection(url=url).client()
    try:
        for row in rows:
            counts = [
                f"{table} {count}"
                for table, column in _CLICKHOUSE_TABLES.items()
                if (count := _rows(client, table, column, intent, row))
            ]
            if row["inserted_us"]:
                yield Stop(row["inserted_us"], "ClickHouse", f"rows of seq {row['seq']}: {', '.join(counts)}")
    finally:
        client.close()


def _rows(client: Any, table: str, column: str, intent: str, row: Row) -> int:
    query = (
        f"select count() from {table} where {column} = {{intent:String}} "  # noqa: S608 - our own names
        "and kafka_partition = {partition:UInt16} and seq = {seq:UInt64}"
    )
    parameters = {"intent": intent, "partition": row["partition"], "seq": row["seq"]}
    return int(client.query(query, parameters=parameters).first_row[0])
