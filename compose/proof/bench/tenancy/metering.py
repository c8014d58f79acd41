"""Metering under measure: reading, verifying who sent a record, judging it, counting it once, and feeding ClickHouse.

Some events come twice; afterwards what counts in either store is compared with what was sent.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

import psycopg
import structlog

from compose.proof import limits as proof_limits
from compose.proof.bench.cpu import cpu_seconds
from compose.proof.bench.goals import at_least
from dataflows.tenancy.usage.stream import FOLLOWER, UsageStream
from schemas.senders import INGRESS
from schemas.services import senders_to
from schemas.tenancy.usage_event import record_key
from schemas.tenancy.usage_topic import USAGE, USAGE_PARTITIONS
from sinks import limits as sinks_limits
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.metrics import SinkMetrics
from sinks.clickhouse.sink import Sink, SinkSettings
from sinks.clickhouse.tenancy.usage import USAGE_SINK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from clickhouse_connect.driver.client import Client

    from compose.proof.bench.world import World
    from sinks.kafka.connection import KafkaConnection

DATABASE: Final = "bench_tenancy"
_NAME: Final = "bench-metering"
_TENANTS: Final = 50
_METERED_GOAL: Final = 20_000
_REPEATED_EVERY: Final = 20
_APART: Final = timedelta(microseconds=250)
_READ: Final = "select coalesce(sum(next_offset), 0) from stream_position where follower = %s"
_FED: Final = "select coalesce(sum(last_seq), 0) from stream_position where follower = %s"
_SESSION: Final = "select pid from pg_stat_activity where application_name = %s"
_COUNTED: Final = "select count(*), coalesce(sum(quantity), 0) from usage_event"
_POSITION: Final = (
    "insert into stream_position (follower, topic, partition, next_offset, last_seq) values (%s, %s, %s, %s, -1)"
)


def bench_metering(world: World, count: int) -> dict[str, Any]:
    """Fills the topic, counts all of it into both stores, and compares."""
    dsn = world.database(DATABASE)
    try:
        before = world.ends(USAGE, USAGE_PARTITIONS)
        sent, total = _fill(world, count)
        end = sum(world.ends(USAGE, USAGE_PARTITIONS))
        with psycopg.connect(dsn, autocommit=True) as connection, _clickhouse(world, dsn) as client:
            for partition, offset in enumerate(before):
                connection.execute(_POSITION, (FOLLOWER, USAGE, partition, offset))
            stream = UsageStream(world.signer(), dsn, world.settings.sender_keys().of(senders_to(USAGE)), _NAME)
            thread = threading.Thread(target=stream.run, name="metering")
            began, own_began = time.monotonic(), time.process_time()
            thread.start()
            _wait(lambda: _one(connection, _READ, FOLLOWER) >= end or not thread.is_alive())
            seconds, own = time.monotonic() - began, time.process_time() - own_began
            session_cpu = cpu_seconds({"session": [_one(connection, _SESSION, _NAME)]})["session"]
            _wait(lambda: _one(connection, _FED, USAGE_SINK.name) >= count or not thread.is_alive())
            fed_seconds = time.monotonic() - began
            stream.stop()
            thread.join()
            counted = connection.execute(_COUNTED.encode()).fetchone()
            fed = client.query("select count(), sum(quantity) from usage_events").result_rows[0]
    finally:
        world.drop(DATABASE)
    return {
        "sent": sent,
        "tenants": _TENANTS,
        "counted": count,
        "seconds": round(seconds, 2),
        "events_per_s": round(sent / seconds),
        "clickhouse_seconds": round(fed_seconds, 2),
        **at_least("clickhouse_events_per_s", round(sent / fed_seconds), _METERED_GOAL),
        "cpu_s": round(own, 2),
        "postgres_cpu_s": round(session_cpu, 2),
        "counted_as_sent": counted == (count, total) == tuple(map(int, fed)),
    }


@contextmanager
def _clickhouse(world: World, dsn: str) -> Iterator[Client]:
    """A database of its own, and the process that feeds it, as beside a running system."""
    url = urlunsplit(urlsplit(world.addresses.clickhouse_url)._replace(path=f"/{DATABASE}"))
    server = ClickHouseConnection(url=world.addresses.clickhouse_url).client()
    server.command(f"drop database if exists {DATABASE}")
    server.command(f"create database {DATABASE}")
    given = (dsn, world.addresses.kafka, url)
    process = multiprocessing.get_context("spawn").Process(target=_feed, args=given, name="bench-sink")
    process.start()
    client = ClickHouseConnection(url=url).client()
    try:
        _wait(lambda: bool(client.command("exists table tenant_usage")))
        yield client
    finally:
        process.terminate()
        process.join()
        client.close()
        server.command(f"drop database {DATABASE}")
        server.close()


def _feed(dsn: str, kafka: KafkaConnection, url: str) -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # stdout is the result's
    settings = SinkSettings(
        sink=USAGE_SINK,
        kafka=kafka,
        postgres_dsn=dsn,
        clickhouse=ClickHouseConnection(url=url),
        topic=USAGE_SINK.topic,
        partitions=USAGE_SINK.partitions,
        owner_id=_NAME,
    )
    Sink(settings, SinkMetrics(USAGE_SINK.name)).run()


def _fill(world: World, count: int) -> tuple[int, int]:
    """Puts events into the topic, some of them twice; how many, and the sum of what counts."""
    kafka, producer = world.signer(), world.producer()
    topic, at, sent = kafka.topic(USAGE), datetime.now(UTC) - count * _APART, 0
    for n in range(count):
        key = record_key(f"tn_{n % _TENANTS}", f"/meter/{n % 7}", f"event-{n}")
        value = json.dumps(
            {
                "specversion": "1.0",
                "type": "millrace.usage",
                "source": f"/meter/{n % 7}",
                "id": f"event-{n}",
                "time": (at + n * _APART).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
                "data": {"dimension": "tokens", "quantity": n % 1_000},
            }
        ).encode()
        headers = kafka.signed((INGRESS,), USAGE, key, value)
        for _ in range(2 if n % _REPEATED_EVERY == 0 else 1):
            sent += 1
            while True:
                try:
                    producer.produce(topic, value=value, key=key, headers=headers)
                except BufferError:
                    producer.poll(0.05)
                else:
                    break
    producer.flush(sinks_limits.KAFKA_DELIVERY_TIMEOUT_MS / 1_000)
    return sent, sum(n % 1_000 for n in range(count))


def _wait(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + proof_limits.BENCH_METERING_MAX_S
    while not done() and time.monotonic() < deadline:
        time.sleep(sinks_limits.HEALTH_POLL_INTERVAL_S)


def _one(connection: psycopg.Connection[Any], query: str, given: str) -> int:
    row = connection.execute(query.encode(), (given,)).fetchone()
    return 0 if row is None else int(row[0])
