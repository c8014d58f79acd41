"""Those who watch hear of open cases by kind, and of committed events that Kafka does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from prometheus_client import CollectorRegistry

from reconciliation.payments.repair.waiting import WaitingLoop, WaitingMetrics
from schemas.payments import limits
from tests.worlds.sink_stage import Stage, new_stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import World

pytestmark = pytest.mark.servers
TOPIC = "'payments.events.v1'"


@pytest.fixture(scope="module")
def stage(stack: World) -> Iterator[Stage]:
    with new_stage(stack.settings, payments=0) as made:
        yield made


class Watcher:
    def __init__(self, stage: Stage) -> None:
        self.registry = CollectorRegistry()
        self.loop = WaitingLoop(stage.dsn("millrace_worker"), "watcher", WaitingMetrics(self.registry))

    def told(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"millrace_{name}", labels)


def test_open_cases_are_counted_by_kind_with_the_age_of_the_oldest(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.sql("delete from repair_case")
    stage.sql(
        "insert into repair_case (id, kind, reference, state, opened_at) select 'c' || n, kind, 'r' || n, state,"
        " now() - make_interval(hours => n) from (values (1, 'a', 'open'), (2, 'b', 'proposed'), (9, 'b', 'resolved'),"
        " (3, 'b', 'open'), (4, 'c', 'open')) t (n, kind, state)"
    )
    watcher = Watcher(stage)
    watcher.loop.look()
    assert [watcher.told("cases_open", kind=kind) for kind in "abc"] == [1, 2, 1]
    ages = [watcher.told("cases_oldest_seconds", kind=kind) or 0 for kind in "abc"]
    assert [int(age_s // 3_600) for age_s in ages] == [1, 3, 4]
    stage.sql("update repair_case set state = 'resolved' where kind = 'a'")
    monkeypatch.setattr(limits, "CASES_COUNTED_MAX", 1)
    watcher.loop.look()
    assert [watcher.told("cases_open", kind=kind) for kind in "abc"] == [None, 1, 1]
    assert int((watcher.told("cases_oldest_seconds", kind="b") or 0) // 3_600) == 3


def test_the_oldest_event_that_kafka_does_not_have_is_told_of_each_topic(stage: Stage) -> None:
    stage.sql("delete from partition_owner where topic = 'payments.commands.v1'")
    stage.sql(
        "insert into partition_owner (topic, partition, published_seq) values"
        " ('payments.commands.v1', 900, 1), ('payments.commands.v1', 901, 0)"
    )
    event = "insert into outbox select {t}, {p}, {n}, 'e', 'k', 1, 's', '', now() - interval '{h} hours'"
    for partition, number, hours in ((900, 1, 9), (900, 2, 2), (900, 3, 1)):
        stage.sql(event.format(t=TOPIC, p=partition, n=number, h=hours))
    watcher = Watcher(stage)
    watcher.loop.look()
    assert int((watcher.told("outbox_oldest_seconds", topic="payments.events.v1") or 0) // 3_600) == 2
    stage.sql("update partition_owner set published_seq = 3 where partition = 900")
    watcher.loop.look()
    assert watcher.told("outbox_oldest_seconds", topic="payments.events.v1") == 0


def test_a_worker_reads_no_outbox(stage: Stage) -> None:
    with (
        psycopg.connect(stage.dsn("millrace_worker")) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute("select from outbox")
