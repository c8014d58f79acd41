"""The partitioner: Kafka's own test vectors, and the topics it is used with."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from pydantic import ValidationError

from compose.settings.settings import Settings
from schemas import errors, services, topics
from schemas.payments import topics as payments_topics
from sinks import limits
from sinks.kafka.copies import AS_THE_CLUSTER, Copies
from sinks.kafka.topics import configuration, create_all
from tests.each import each

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# org.apache.kafka.common.utils.UtilsTest.testMurmur2
JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "expected"), JAVA.items(), ids=lambda v: str(v)[:24])
def test_murmur2_is_kafkas(key: bytes, expected: int) -> None:
    assert topics.murmur2(key) == expected % 2**32


@each(("key", "expected"), JAVA.items())
@each("partitions", [1, 7, 8, 64])
def test_a_partition_is_what_javas_producer_picks(key: bytes, expected: int, partitions: int) -> None:
    """Utils.toPositive(murmur2(key)) % partitions: the sign bit is cut off, not negated."""
    assert topics.partition_for(key.decode(), partitions) == (expected & 0x7FFFFFFF) % partitions


def test_keys_are_hashed_as_utf8() -> None:
    assert topics.partition_for("é", 2**31) == topics.murmur2("é".encode()) & 0x7FFFFFFF


def test_topics_are_named_service_kind_version() -> None:
    for topic in services.TOPICS:
        name, _, version = topic.name.rpartition(".")
        assert name
        assert version == "v1"
        assert topic.partitions > 0
        assert topic.doc


def test_commands_and_events_of_a_service_have_equal_partition_counts() -> None:
    """An event's partition is its command's: consumers of both keep one order per aggregate."""
    counts = {t.name: t.partitions for t in services.TOPICS}
    assert counts[payments_topics.COMMANDS] == counts[payments_topics.EVENTS]
    assert counts[payments_topics.COMMANDS] == counts[payments_topics.DEAD_LETTERS]
    assert counts[payments_topics.COMMANDS] == payments_topics.PARTITIONS
    assert counts[topics.RESULTS] == topics.RESULTS_PARTITIONS


def test_a_topic_keeps_its_name() -> None:
    """What was written lies under the name: whoever moves a module must not rename a topic with it."""
    assert {topic.name for topic in services.TOPICS} == {
        "commands.payments.v1",
        "events.payments.v1",
        "dead_letters.payments.v1",
        "commands.limiter.v1",
        "commands.tenancy.v1",
        "events.tenancy.v1",
        "dead_letters.tenancy.v1",
        "tenancy.usage.v1",
        "events.limiter.v1",
        "dead_letters.limiter.v1",
        "commands.social.v1",
        "events.social.v1",
        "dead_letters.social.v1",
        "limiter.decisions.v1",
        "limiter.leases.v1",
        "limiter.identities.v1",
        "results.v1",
    }


def test_no_default_of_a_cluster_deletes_what_nobody_has_read() -> None:
    """Where it compacts by default, or bounds the bytes of a partition, commands and events would be gone."""
    for topic in services.TOPICS:
        said = {"cleanup.policy": "delete", "retention.bytes": "-1", "retention.ms": str(topic.retention_ms)}
        assert configuration(topic).items() >= said.items()


def test_replicas_that_a_cluster_has_no_brokers_for_are_refused_and_so_are_topics_with_fewer() -> None:
    three = Copies(replicas=3, in_sync=2)
    assert three.fault(3, {"a": 3, "b": 4}) is None
    assert three.fault(2, {}) == "topics are to have 3 replicas, and the cluster has 2 brokers"
    said = three.fault(3, {"a": 3, "b": 1, "c": 2})
    assert said is not None
    assert said.startswith("topics are to have 3 replicas: b has 1 and 1 more topics; ")
    assert AS_THE_CLUSTER.fault(1, {"a": 1}) is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kafka_min_insync_replicas": 2}, "MILLRACE_KAFKA_REPLICATION_FACTOR must be as many or more"),
        ({"kafka_replication_factor": 2, "kafka_min_insync_replicas": 3}, "must be as many or more"),
        ({"kafka_replication_factor": 3}, "the embedded Kafka is one broker"),
        ({"kafka_replication_factor": 0}, "greater than or equal to 1"),
    ],
)
def test_replicas_that_nothing_could_be_written_with_are_refused(changes: Any, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Settings(**changes)
    outside = Settings(kafka_bootstrap="localhost:9092", kafka_replication_factor=3, kafka_min_insync_replicas=2)
    assert outside.kafka_copies() == Copies(3, 2)
    assert Settings(kafka_replication_factor=1, kafka_min_insync_replicas=1).kafka_copies() == Copies(1, 1)
    assert Settings().kafka_copies() == AS_THE_CLUSTER


def _answers(*codes: int) -> tuple[list[list[str]], Callable[[Sequence[str]], dict[str, Future[None]]]]:
    """What was asked for, and a controller that answers "b" with these codes in turn (0: made), all others at once."""
    asked: list[list[str]] = []
    left = list(codes)

    def create(names: Sequence[str]) -> dict[str, Future[None]]:
        asked.append(list(names))
        answered: dict[str, Future[None]] = {name: Future() for name in names}
        for name, future in answered.items():
            code = left.pop(0) if name == "b" else 0
            future.set_exception(KafkaException(KafkaError(code))) if code else future.set_result(None)
        return answered

    return asked, create


def test_a_topic_that_a_busy_broker_refuses_for_a_moment_is_asked_for_again_alone() -> None:
    """And one that is there by then was made by the first try, or by another process."""
    no_leader, is_there = KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.TOPIC_ALREADY_EXISTS
    asked, create = _answers(no_leader, KafkaError.NOT_CONTROLLER, KafkaError._TIMED_OUT, is_there)
    create_all(create, ["a", "b"])
    assert asked == [["a", "b"], ["b"], ["b"], ["b"]]


def test_a_topic_that_kafka_never_makes_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused for good at the first try; and for a moment for ever, when the time is over."""
    asked, create = _answers(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(errors.Unavailable, match="does not create topic b: Broker: Topic authorization failed"):
        create_all(create, ["b"])
    assert asked == [["b"]]
    monkeypatch.setattr(limits, "KAFKA_TOPICS_TIMEOUT_S", -1)
    asked, create = _answers(KafkaError.NOT_LEADER_FOR_PARTITION)
    with pytest.raises(errors.Unavailable, match="does not create topic b: Broker: Not leader"):
        create_all(create, ["b"])
    assert asked == [["b"]]
