"""The ClickHouse front over kill -9 and a polite stop: what it acknowledged is kept, once."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError

from tests.eventually import eventually, patient

if TYPE_CHECKING:
    from tests.contracts.conftest import FrontProcess

pytestmark = pytest.mark.servers


def test_kill_and_restart_keep_what_was_acknowledged(front: FrontProcess) -> None:
    """kill -9 between inserts: every acknowledged row and the tokens of their blocks are still there."""
    client = front.client()
    client.command(
        "CREATE TABLE durable (a Int64) ENGINE = MergeTree ORDER BY a "
        "SETTINGS non_replicated_deduplication_window = 100"
    )
    for n in range(10):
        client.insert("durable", [[n]], settings={"insert_deduplication_token": f"block-{n}"})
    client.close()
    assert front.stop(signal.SIGKILL) == -signal.SIGKILL
    front.start()
    client = front.client()
    for n in range(10):
        client.insert("durable", [[n]], settings={"insert_deduplication_token": f"block-{n}"})
    assert client.query("SELECT count(), sum(a) FROM durable").result_rows == [(10, 45)]
    client.close()


def test_kill_during_a_stream_of_inserts_loses_nothing_and_doubles_nothing(front: FrontProcess) -> None:
    """A writer that repeats its block until it is acknowledged, across a kill at a random moment."""
    front.client().command(
        "CREATE TABLE streamed (a Int64) ENGINE = MergeTree ORDER BY a "
        "SETTINGS non_replicated_deduplication_window = 1000"
    )
    acknowledged: list[int] = []

    def write() -> None:
        client = None
        for block in range(60):
            while True:
                try:
                    client = client or front.client(query_retries=0)
                    rows = [[block * 1000 + n] for n in range(1000)]
                    client.insert("streamed", rows, settings={"insert_deduplication_token": f"s-{block}"})
                    break
                except (DatabaseError, OperationalError):
                    client = None
            acknowledged.append(block)

    writer = threading.Thread(target=write)
    writer.start()
    eventually(lambda: len(acknowledged) > 10, what="some blocks are in")
    front.stop(signal.SIGKILL)
    front.start()
    writer.join(timeout=patient(30))
    assert len(acknowledged) == 60
    client = front.client()
    assert client.query("SELECT count(), uniqExact(a) FROM streamed").result_rows == [(60_000, 60_000)]
    client.close()


def test_a_polite_stop_finishes_what_runs(front: FrontProcess) -> None:
    """SIGTERM in the middle of a query: it answers, then the process ends with 0 and starts again."""
    answers: list[object] = []
    client, watcher = front.client(), front.client()
    threads: list[threading.Thread] = []
    running = "SELECT count() FROM system.processes WHERE query LIKE '%sleep(3)%' AND query NOT LIKE '%processes%'"

    def is_running() -> bool:
        """Asked again when it was over before anybody looked."""
        if not threads or not threads[-1].is_alive():
            threads.append(threading.Thread(target=lambda: answers.append(client.command("SELECT sleep(3)"))))
            threads[-1].start()
        return watcher.command(running) == 1

    eventually(is_running, what="the query runs")
    assert front.stop(signal.SIGTERM) == 0
    threads[-1].join(timeout=patient(10))
    assert answers == [0] * len(threads)
    front.start()
