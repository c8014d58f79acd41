"""The time of a record is the broker's: no producer's clock is refused, and none decides how long a record is kept."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, Producer, TopicPartition

from schemas import services
from schemas.errors import InvariantViolation
from sinks.kafka.copies import Copies
from sinks.kafka.topics import ensure_topics
from tests.eventually import eventually, patient

if TYPE_CHECKING:
    from tests.servers import World

pytestmark = pytest.mark.servers
_DAY_MS = 86_400_000


def test_a_record_of_a_producer_whose_clock_is_wrong_is_taken_and_has_the_brokers_time(stack: World) -> None:
    """A day ahead, or a year behind: at every topic that there is."""
    kafka = stack.settings.addresses().kafka
    with pytest.raises(InvariantViolation, match="to have 2 replicas, and the cluster has 1 brokers"):
        ensure_topics(kafka, Copies(replicas=2, in_sync=2))
    ensure_topics(kafka, Copies(replicas=1, in_sync=1))
    producer, names = Producer(kafka.producer("wrong-clock")), [kafka.topic(t.name) for t in services.TOPICS]
    refused: list[Any] = []
    now_ms = time.time_ns() // 1_000_000
    for name in names:
        for made_ms in (now_ms + _DAY_MS, now_ms - 365 * _DAY_MS):
            producer.produce(
                name, b"x", partition=0, timestamp=made_ms, on_delivery=lambda error, _: error and refused.append(error)
            )
    assert producer.flush(patient(20)) == 0
    assert refused == []
    consumer = Consumer(kafka.consumer("wrong-clock", "wrong-clock"))
    consumer.assign([TopicPartition(name, 0, 0) for name in names])
    found: dict[str, list[tuple[int, int]]] = {name: [] for name in names}

    def read_all() -> bool:
        while message := consumer.poll(0.1):
            found[str(message.topic())].append(message.timestamp())
        return all(len(times) >= 2 for times in found.values())

    eventually(read_all, 20, what="all are read")
    consumer.close()
    kinds = {kind for times in found.values() for kind, _ in times}
    assert kinds == {TIMESTAMP_LOG_APPEND_TIME}
    assert all(abs(at_ms - now_ms) < _DAY_MS // 24 for times in found.values() for _, at_ms in times)
