"""Parked commands: retried under the same identity or given up, by a named operator, with the object working again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from confluent_kafka import Consumer, TopicPartition

from reconciliation.parked import Decision, Place, parked_discard, parked_list, parked_retry
from schemas import errors
from schemas.avro import codec
from schemas.records import Command
from sinks.kafka.connection import KafkaConnection
from tests.worlds.senders import signing
from tests.worlds.sink_stage import Stage, new_stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import World

pytestmark = pytest.mark.servers

ME = Decision(operator="ada", note="the fix is deployed")


@pytest.fixture(scope="module")
def stage(stack: World) -> Iterator[Stage]:
    with new_stage(stack.settings) as made:
        yield made


@pytest.fixture
def operator(stage: Stage) -> Iterator[psycopg.Connection]:
    with psycopg.connect(stage.dsn("millrace_operator"), autocommit=True) as connection:
        yield connection
    stage.sql("truncate dead_letter, parked_aggregate")


def park(stage: Stage, offset: int, record: bytes, aggregate_key: str = "pi_1") -> Place:
    place = Place(topic=stage.world.commands_topic, partition=2, offset=offset)
    with psycopg.connect(stage.dsn(), autocommit=True) as connection:
        connection.execute(
            'insert into dead_letter (topic, partition, "offset", aggregate_key, reason, record, parked_at)'
            " values (%s, 2, %s, %s, 'boom', %s, now())",
            (place.topic, offset, aggregate_key, record),
        )
        connection.execute(
            "insert into parked_aggregate values (%s, %s, 2, %s, 'boom', now()) on conflict do nothing",
            (aggregate_key, place.topic, offset),
        )
    return place


def a_command() -> Command:
    return Command(
        operation="confirm_payment_intent",
        request_id="r",
        idempotency_key="k",
        aggregate_key="pi_1",
        expected_version=None,
        scope="m_1",
        request_hash=bytes(32),
        trace_id="0" * 32,
        issued_at=1,
        deadline_at=5,
        reply_to=3,
        reply_id=9,
        payload={"payment_method": None},
    )


def produced(kafka: KafkaConnection, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    consumer = Consumer(kafka.consumer("test", "test"))
    where = TopicPartition(kafka.topic(topic), 2, 0)
    consumer.assign([where])
    marks = consumer.get_watermark_offsets(where, timeout=10)
    assert marks is not None
    found: list[tuple[bytes | None, bytes | None]] = []
    while len(found) < marks[1]:
        found += [(m.key(), m.value()) for m in consumer.consume(10, 0.2) if not m.error()]
    consumer.close()
    return found


def test_a_retry_produces_the_same_command_and_releases_its_object(stage: Stage, operator: psycopg.Connection) -> None:
    place = park(stage, 100, codec.encode_command(a_command()))
    (row,) = parked_list(operator)
    assert (row["offset"], row["state"], row["aggregate_refuses"]) == (100, "open", True)
    parked_retry(operator, signing(stage.kafka), place, ME)
    key, value = produced(stage.kafka, place.topic)[-1]
    again = codec.decode_command(value or b"")
    assert key == b"pi_1"
    assert (again.idempotency_key, again.request_hash, set(again.payload.values())) == ("k", bytes(32), {None})
    assert (again.deadline_at, again.reply_to) == (0, -1)  # nobody waits for it any more
    assert parked_list(operator) == []
    (row,) = parked_list(operator, every_state=True)
    assert (row["state"], row["resolved_by"], row["resolution_note"]) == ("retried", "ada", ME.note)
    assert row["resolved_at"] <= row["republished_at"]
    assert not row["aggregate_refuses"]
    with pytest.raises(errors.StateConflict, match="is retried already"):
        parked_retry(operator, signing(stage.kafka), place, ME)


def test_an_unreadable_record_goes_back_as_it_came(stage: Stage, operator: psycopg.Connection) -> None:
    place = park(stage, 101, b"\xffgarbage")
    parked_retry(operator, signing(stage.kafka), place, ME)
    assert produced(stage.kafka, place.topic)[-1][1] == b"\xffgarbage"


def test_a_retry_that_kafka_did_not_take_is_retried(stage: Stage, operator: psycopg.Connection) -> None:
    """The decision is durable first; the record stays in the list until it lies in its topic."""
    place = park(stage, 102, codec.encode_command(a_command()))
    nowhere = KafkaConnection(bootstrap="127.0.0.1:9", security={"message.timeout.ms": "1000", "log_level": "0"})
    with pytest.raises(errors.Unavailable, match="retry it again"):
        parked_retry(operator, signing(nowhere), place, ME)
    (row,) = parked_list(operator)
    assert (row["state"], row["republished_at"]) == ("retried", None)
    before = len(produced(stage.kafka, place.topic))
    parked_retry(operator, signing(stage.kafka), place, ME)
    assert len(produced(stage.kafka, place.topic)) == before + 1
    assert parked_list(operator) == []


def test_a_discard_releases_the_object_and_produces_nothing(stage: Stage, operator: psycopg.Connection) -> None:
    place = park(stage, 103, codec.encode_command(a_command()))
    before = len(produced(stage.kafka, place.topic))
    parked_discard(operator, place, ME)
    assert parked_list(operator) == []
    assert stage.value("select count(*) from parked_aggregate") == 0
    assert len(produced(stage.kafka, place.topic)) == before
    for decide in (
        lambda: parked_discard(operator, place, ME),
        lambda: parked_retry(operator, signing(stage.kafka), place, ME),
    ):
        with pytest.raises(errors.StateConflict, match="is discarded already"):
            decide()


def test_an_object_with_another_open_record_goes_on_refusing(stage: Stage, operator: psycopg.Connection) -> None:
    first = park(stage, 104, b"a")
    second = park(stage, 105, b"b")
    parked_discard(operator, first, ME)
    assert stage.value("select count(*) from parked_aggregate") == 1
    parked_discard(operator, second, ME)
    assert stage.value("select count(*) from parked_aggregate") == 0


def test_a_place_is_read_or_refused(operator: psycopg.Connection) -> None:
    assert str(Place.parse("commands.payments.v1/3/120")) == "commands.payments.v1/3/120"
    for wrong in ("commands/3", "commands/x/1", "commands/1/-1"):
        with pytest.raises(ValueError, match="TOPIC/PARTITION/OFFSET"):
            Place.parse(wrong)
    with pytest.raises(errors.NotFound, match="nothing is parked"):
        parked_discard(operator, Place(topic="t", partition=0, offset=0), ME)
