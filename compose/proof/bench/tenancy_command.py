"""``millrace bench tenancy``: tenants made, a noisy one beside others, and usage counted once.

Of usage the metering process is measured: reading, verifying who sent a record, judging it, counting it with its
position. Some events come twice; afterwards what counts is compared with what was sent.
"""

from __future__ import annotations

import json
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import psycopg
import typer

from schemas import limits

if TYPE_CHECKING:
    from compose.proof.bench.world import World

_DATABASE: Final = "bench_tenancy"
_NAME: Final = "bench-metering"
_TENANTS: Final = 50
_REPEATED_EVERY: Final = 20
_DONE: Final = "select coalesce(sum(next_offset), 0) from stream_position where follower = %s"
_SESSION: Final = "select pid from pg_stat_activity where application_name = %s"
_POSITION: Final = (
    "insert into stream_position (follower, topic, partition, next_offset, last_seq) values (%s, %s, %s, %s, -1)"
)


def tenancy(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    events: Annotated[
        int, typer.Option(min=1_000, max=limits.BENCH_USAGE_EVENTS_MAX, help="Events of usage.")
    ] = limits.BENCH_USAGE_EVENTS_DEFAULT,
    tenants: Annotated[
        int, typer.Option(min=100, max=limits.BENCH_TENANTS_MAX, help="Tenants to make.")
    ] = limits.BENCH_TENANTS_DEFAULT,
    rows: Annotated[
        int, typer.Option(min=1_000, max=limits.BENCH_MOVE_ROWS_MAX, help="Rows of the tenant that is moved.")
    ] = limits.BENCH_MOVE_ROWS_DEFAULT,
    seconds: Annotated[
        float, typer.Option(min=1, max=limits.BENCH_SECONDS_MAX, help="Length of each measurement of latency.")
    ] = limits.BENCH_SECONDS_DEFAULT,
    home: Annotated[Path | None, typer.Option(help="Use the servers that run in this home, and leave them.")] = None,
) -> None:
    """Measure tenants made, a move, fairness beside a noisy tenant, and metering: events a second, each once."""
    from compose.proof.bench.world import bench_world  # noqa: PLC0415 - the help needs none of it

    with bench_world(home) as world:
        result = bench_load(world, tenants, seconds, rows) | bench_tenancy(world, events)
    if as_json:
        print(json.dumps(result, indent=1))
    else:
        made, fair, move = result["provisioning"], result["fairness"], result["move"]
        print(
            f"{made['tenants']:,} tenants made: {made['tenants_per_s']:,} tenants/s; a page of the list"
            f" {made['list_page_p99_ms']} ms (p99 of {made['list_pages']})"
        )
        print(
            f"{move['rows']:,} rows moved: {move['copied_rows_per_s']:,} rows/s copied,"
            f" {move['verified_rows_per_s']:,} compared; no writes for {move['write_pause_ms']} ms"
        )
        print(
            f"p99 of the others {fair['alone']['p99_ms']} ms alone, {fair['beside_noisy']['p99_ms']} ms beside a tenant"
            f" at {limits.BENCH_NOISY_TIMES}x: {fair['p99_ratio']}x; noticed: {', '.join(fair['noticed']) or 'nobody'}"
        )
        print(
            f"{result['sent']:,} events in {result['seconds']} s: {result['events_per_s']:,} events/s,"
            f" {result['counted']:,} counted once, of {_TENANTS} tenants;"
            f" CPU seconds: own {result['cpu_s']}, Postgres {result['postgres_cpu_s']}"
        )
    if not result["counted_as_sent"]:
        raise typer.Exit(1)


def bench_load(world: World, tenants: int, seconds: float, rows: int) -> dict[str, Any]:
    """Tenants in bulk, the move of a large one, the latency of some beside a noisy one; a database for each."""
    from compose.proof.bench.tenancy_load import measure_fairness, measure_provisioning  # noqa: PLC0415
    from compose.proof.bench.tenancy_move import measure_move  # noqa: PLC0415

    try:
        provisioning = measure_provisioning(world, world.database(_DATABASE), tenants)
        move = measure_move(world, world.database(_DATABASE), rows)
        fairness = measure_fairness(world, world.database(_DATABASE), limits.BENCH_QUIET_RATE_PER_S, seconds)
    finally:
        world.drop(_DATABASE)
    return {"provisioning": provisioning, "move": move, "fairness": fairness}


def bench_tenancy(world: World, count: int) -> dict[str, Any]:
    """Fills the topic, counts all of it, and compares."""
    from compose.proof.bench.cpu import cpu_seconds  # noqa: PLC0415
    from dataflows.tenancy.usage.stream import FOLLOWER, UsageStream  # noqa: PLC0415
    from schemas.tenancy.usage_topic import USAGE, USAGE_PARTITIONS  # noqa: PLC0415

    dsn = world.database(_DATABASE)
    try:
        before = world.ends(USAGE, USAGE_PARTITIONS)
        sent, total = _fill(world, count)
        end = sum(world.ends(USAGE, USAGE_PARTITIONS))
        with psycopg.connect(dsn, autocommit=True) as connection:
            for partition, offset in enumerate(before):
                connection.execute(_POSITION, (FOLLOWER, USAGE, partition, offset))
            stream = UsageStream(world.signer(), dsn, world.settings.sender_keys(), _NAME)
            thread = threading.Thread(target=stream.run, name="metering")
            began, own_began = time.monotonic(), time.process_time()
            thread.start()
            while (_one(connection, _DONE, FOLLOWER)) < end and thread.is_alive():
                time.sleep(limits.HEALTH_POLL_INTERVAL_S)
            seconds, own = time.monotonic() - began, time.process_time() - own_began
            session_cpu = cpu_seconds({"session": [_one(connection, _SESSION, _NAME)]})["session"]
            stream.stop()
            thread.join()
            counted = _one(connection, "select count(*) from usage_event where source <> %s", "")
            quantity = _one(connection, "select coalesce(sum(quantity), 0) from usage_event where source <> %s", "")
    finally:
        world.drop(_DATABASE)
    return {
        "sent": sent,
        "counted": counted,
        "seconds": round(seconds, 2),
        "events_per_s": round(sent / seconds),
        "cpu_s": round(own, 2),
        "postgres_cpu_s": round(session_cpu, 2),
        "counted_as_sent": (counted, quantity) == (count, total),
    }


def _fill(world: World, count: int) -> tuple[int, int]:
    """Puts events into the topic, some of them twice; how many, and the sum of what counts."""
    from schemas.senders import INGRESS  # noqa: PLC0415
    from schemas.tenancy.usage_event import record_key  # noqa: PLC0415
    from schemas.tenancy.usage_topic import USAGE  # noqa: PLC0415

    kafka, producer = world.signer(), world.producer()
    topic, at, sent = kafka.topic(USAGE), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), 0
    for n in range(count):
        key = record_key(f"tn_{n % _TENANTS}", f"/meter/{n % 7}", f"event-{n}")
        value = json.dumps(
            {
                "specversion": "1.0",
                "type": "millrace.usage",
                "source": f"/meter/{n % 7}",
                "id": f"event-{n}",
                "time": at,
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
    producer.flush(limits.KAFKA_DELIVERY_TIMEOUT_MS / 1_000)
    return sent, sum(n % 1_000 for n in range(count))


def _one(connection: psycopg.Connection[Any], query: str, given: str) -> int:
    row = connection.execute(query.encode(), (given,)).fetchone()
    return 0 if row is None else int(row[0])
