"""Takes the ClickHouse sink out of its hands for a swap, finishes what it had begun, and gives it back."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg

from reconciliation import limits as reconciliation_limits
from schemas import errors
from sinks import limits as sinks_limits
from sinks.clickhouse.event_stream import open_stream
from sinks.clickhouse.insert import Inserter
from sinks.clickhouse.plans import Fence
from sinks.clickhouse.sink import complete_plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clickhouse_connect.driver.client import Client

    from sinks.clickhouse.sink import SinkSettings


@contextmanager
def sink_held(settings: SinkSettings, client: Client) -> Iterator[Fence]:
    """The running sink has let go and nothing of it is under way; it goes on when the block ends.

    Raises errors.Unavailable when a live sink does not let go in time.
    """
    with (
        psycopg.connect(
            settings.postgres_dsn, autocommit=True, connect_timeout=sinks_limits.POSTGRES_CONNECT_TIMEOUT_S
        ) as connection,
        psycopg.connect(
            settings.postgres_dsn, autocommit=True, connect_timeout=sinks_limits.POSTGRES_CONNECT_TIMEOUT_S
        ) as beating,
    ):
        fence = _fence(connection, settings)
        _claim(fence)
        heart = _fence(beating, settings)
        heart.epoch = fence.epoch
        stop = threading.Event()
        thread = threading.Thread(target=_beat, args=(heart, stop), name="sink-hold", daemon=True)
        thread.start()
        try:
            _finish_open_plan(fence, connection, client, settings)
            yield fence
        finally:
            stop.set()
            thread.join()
            fence.release()


def _fence(connection: psycopg.Connection, settings: SinkSettings) -> Fence:
    return Fence(connection, sink=settings.sink.name, topic=settings.topic, owner_id=settings.owner_id)


def _claim(fence: Fence) -> None:
    deadline = time.monotonic() + reconciliation_limits.REPLAY_HOLD_WAIT_S
    fence.ensure()
    fence.request()
    while not fence.claim():
        if time.monotonic() > deadline:
            raise errors.Unavailable("the ClickHouse sink does not let go; see 'millrace logs clickhouse_sink'")
        time.sleep(sinks_limits.SINK_CLAIM_POLL_MS / 1_000)
        fence.request()


def _beat(fence: Fence, stop: threading.Event) -> None:
    try:
        while not stop.wait(sinks_limits.SINK_HEARTBEAT_MS / 1_000):
            fence.hold_through()
    except (errors.Fenced, psycopg.OperationalError):
        return  # the swap itself finds out: its next statement names the epoch too


def _finish_open_plan(fence: Fence, connection: psycopg.Connection, client: Client, settings: SinkSettings) -> None:
    plan = fence.open_plan()
    if plan is None:
        return
    stream = open_stream(settings, connection)
    try:
        complete_plan(fence, stream, Inserter(client, settings.sink.tables), plan)
    finally:
        stream.close()
