"""``millrace partitions`` at a shell: what stands still and why, how it goes on, and events published again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from confluent_kafka import TopicPartition

from reconciliation.republish import republish
from schemas.payments import topics
from schemas.services import BY_NAME
from schemas.topics import events_topic
from sinks.kafka.admin import KafkaAdmin
from sinks.kafka.topic_offsets import TopicOffsets
from sinks.kafka.topics import ensure_topics
from tests.eventually import patient
from tests.integration.operator_shell import Operator
from tests.worlds.committed_world import CommittedWorld
from tests.worlds.sink_stage import new_stage

if TYPE_CHECKING:
    from tests.servers import World

pytestmark = pytest.mark.servers


def _rows(world: World, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(world.addresses.postgres_superuser_dsn, autocommit=True) as connection:
        return connection.execute(sql.encode()).fetchall()


def test_halted_partitions_are_told_with_what_to_do_and_go_on_where_the_operator_says(stack: World) -> None:
    """Every way is audited; what the topic does not hold is no place to go on."""
    kafka = stack.addresses.kafka
    ensure_topics(kafka)
    with psycopg.connect(stack.addresses.postgres_superuser_dsn, autocommit=True) as connection:
        CommittedWorld().payments_made(20).store(connection)
        connection.execute("update partition_owner set halted = 'topic_shorter: gone' where partition in (1, 2)")
    shell, place = Operator.of(stack.settings), f"{topics.COMMANDS}/1"
    rows = {row["partition"]: row for row in json.loads(shell.run("partitions", "list", "--json").stdout)["data"]}
    assert (rows[0]["advice"], rows[1]["halted"]) == (None, "topic_shorter: gone")
    listed = shell.run("partitions", "list").stdout
    assert f"millrace partitions resume {place} --note WHY --from low" in listed
    for start in ("7", "end"):
        assert shell.run("partitions", "resume", place, "--note", "n", "--from", start).returncode == 1
    assert shell.run("partitions", "resume", place, "--note", "n", "--from", "high", "--by", "ada").returncode == 0
    assert shell.run("partitions", "resume", place, "--note", "n", "--from", "high", "--by", "ada").returncode == 1
    known = TopicOffsets(kafka, topics.COMMANDS).ask([1]).answer()[1]
    found = _rows(stack, "select halted, topic_id, next_offset - offset_base from partition_owner where partition = 1")
    assert found == [(None, known.topic_id, known.high)]
    assert shell.run("partitions", "resume", f"{topics.COMMANDS}/2", "--note", "mended").returncode == 0
    logged = _rows(
        stack, "select outcome, details::jsonb ->> 'from' from audit_log where action = 'partition.resume' order by seq"
    )
    assert logged == [("refused", "7"), ("done", "high"), ("refused", "high"), ("done", None)]
    sent = shell.run("partitions", "republish", "--partition", "1", "--from-seq", "2")
    newest = _rows(stack, "select max(seq) from outbox where partition = 1")[0][0]
    assert sent.stdout == f"{newest - 1} events of payments are in partition 1 again\n", sent.stderr
    assert TopicOffsets(kafka, topics.EVENTS).ask([1]).answer()[1].high == newest - 1
    assert shell.run("partitions", "republish", "--partition", "1", "--from-seq", str(newest + 1)).returncode == 1
    nowhere = shell.run("partitions", "republish", "--partition", "99", "--from-seq", "1")
    assert (nowhere.returncode, f"{topics.EVENTS}/99 has no events" in nowhere.stderr) == (1, True), nowhere.stderr


@pytest.mark.parametrize("service", sorted(BY_NAME.keys() - {"payments"}))
def test_events_of_every_service_can_be_published_again(stack: World, service: str) -> None:
    kafka = stack.addresses.kafka
    ensure_topics(kafka)
    topic = events_topic(service)
    with psycopg.connect(stack.addresses.postgres_superuser_dsn, autocommit=True) as connection:
        connection.execute(
            "insert into outbox (topic, partition, seq, event_id, aggregate_key, version, scope, payload, occurred_at)"
            " values (%s, 0, 1, 'an event', 'of something', 1, 'scope', %s, now())",
            (topic, b"\x00a record"),
        )
    before = TopicOffsets(kafka, topic).ask([0]).answer()[0].high
    shell = Operator.of(stack.settings)
    sent = shell.run("partitions", "republish", "--partition", "0", "--from-seq", "1", "--service", service)
    assert sent.stdout == f"1 events of {service} are in partition 0 again\n", sent.stderr
    assert TopicOffsets(kafka, topic).ask([0]).answer()[0].high == before + 1


def test_a_service_that_is_not_there_is_refused_with_those_that_are(stack: World) -> None:
    asked = ("partitions", "republish", "--partition", "0", "--from-seq", "1", "--service", "nobody")
    refused = Operator.of(stack.settings).run(*asked)
    assert refused.returncode == 1
    assert "no service 'nobody'; there are payments, limiter, tenancy, social" in refused.stderr


def test_the_sink_reads_on_behind_a_hole_that_was_filled_and_drops_what_it_has(stack: World) -> None:
    """Both at once: one partition lost events that nobody has read, another gets again what was read."""
    with new_stage(stack.settings, payments=40) as stage:
        stage.store_and_publish()
        stage.drain()
        stage.world.payments_made(40)
        stage.store_and_publish()
        admin = KafkaAdmin(stage.kafka.admin())
        hole = TopicPartition(stage.kafka.topic(stage.world.events_topic), 3, -1)
        admin.delete_records([hole])[hole].result(patient(30))
        service = stage.world.events_topic.split(".")[1]
        with psycopg.connect(stage.dsn("millrace_operator"), autocommit=True) as connection:
            for partition in (3, 4):
                republish(connection, stage.kafka, service, partition, 1, "ada", "a test")
        low = TopicOffsets(stage.kafka, stage.world.events_topic).ask([3]).answer()[3].low
        with psycopg.connect(stage.dsn(), autocommit=True) as connection:  # the operator's step: read what there is now
            connection.execute("update stream_position set next_offset = %s where partition = 3", (low,))
        assert not stage.drain().failures
        assert stage.counts() == stage.expected_counts()
