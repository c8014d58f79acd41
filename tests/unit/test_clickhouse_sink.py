"""The loop of a sink: what fails is told and tried again, whatever it was; only an operator's matter ends it."""

from __future__ import annotations

import psycopg
import pytest
from prometheus_client import CollectorRegistry

from schemas import errors
from sinks import limits
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.metrics import SinkMetrics
from sinks.clickhouse.services import SINKS
from sinks.clickhouse.sink import Sink, SinkSettings
from sinks.kafka.connection import KafkaConnection

DECLARED = next(iter(SINKS.values()))


def sink_that_meets(
    monkeypatch: pytest.MonkeyPatch, *failures: Exception
) -> tuple[Sink, SinkMetrics, CollectorRegistry, list[str | None]]:
    """A sink whose cycles fail with these, one after another; after the last it stops. And its troubles before each."""
    registry = CollectorRegistry()
    metrics = SinkMetrics(DECLARED.name, registry)
    settings = SinkSettings(
        sink=DECLARED,
        kafka=KafkaConnection(bootstrap=""),
        postgres_dsn="",
        clickhouse=ClickHouseConnection(url=""),
        topic=DECLARED.topic,
        partitions=1,
        owner_id="some sink",
    )
    sink, left, troubles = Sink(settings, metrics), list(failures), []

    def run_once() -> None:
        troubles.append(metrics.why_not_ready())
        if not left:
            sink.stop()
            return
        raise left.pop(0)

    monkeypatch.setattr(sink, "_run_once", run_once)
    monkeypatch.setattr(limits, "SINK_BACKOFF_FIRST_MS", 0)
    return sink, metrics, registry, troubles


@pytest.mark.parametrize(
    "failure",
    [
        errors.Unavailable("Kafka is away"),
        psycopg.OperationalError("gone"),
        psycopg.InterfaceError("the connection is closed"),
        psycopg.errors.ReadOnlySqlTransaction("a standby"),
        psycopg.errors.UndefinedTable("not migrated"),
        KeyError("table"),
        errors.UndecodableRecord("of a table"),
        RuntimeError(),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_whatever_fails_is_told_and_tried_again(monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    sink, _, registry, troubles = sink_that_meets(monkeypatch, failure)
    sink.run()
    assert type(failure).__name__ in str(troubles[-1])
    assert registry.get_sample_value("millrace_sink_failures_total", {"sink": DECLARED.name}) == 1


def test_a_matter_of_an_operator_ends_the_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    sink, _, registry, _ = sink_that_meets(monkeypatch, errors.InvariantViolation("the records changed"))
    with pytest.raises(errors.InvariantViolation):
        sink.run()
    assert registry.get_sample_value("millrace_sink_failures_total", {"sink": DECLARED.name}) == 0


def test_a_fenced_sink_stands_by_and_claims_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sink, metrics, registry, _ = sink_that_meets(monkeypatch, errors.Fenced("another feeds"))
    sink.run()
    assert metrics.why_not_ready() is None
    assert registry.get_sample_value("millrace_sink_failures_total", {"sink": DECLARED.name}) == 0
