"""A worker stands still before what it cannot read and what is missing; nothing behind it is lost, the rest goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest
from confluent_kafka import Consumer
from confluent_kafka.cimpl import TopicPartition

from schemas.payments import topics
from tests.eventually import becomes, eventually
from tests.worlds.payments.attempts_world import (
    AttemptsWorld,
    new_attempt,
    partition_of,
    readiness,
    world,
)
from tests.worlds.stream_positions import end_of, expire, stored
from tests.worlds.upgraded_service import NEXT_SCHEMA_ID, of_next_release

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["world"]
pytestmark = [pytest.mark.servers, pytest.mark.faults]

FOLLOWER = "processor_attempts"


@pytest.fixture(autouse=True)
def served(world: AttemptsWorld) -> Iterator[None]:
    """A simulator; each test starts its own workers, which end with it."""
    world.start("simulator")
    yield
    world.end_all()


def test_an_unknown_schema_stops_its_partition_until_the_worker_is_upgraded(world: AttemptsWorld) -> None:
    """Rule: readers first, then writers. Forgotten, everything behind the first new event waits, and nothing is lost."""
    before, *behind = in_one_partition(5)
    elsewhere = in_another_partition(before)
    old, port = world.launch("processor_worker")
    world.publish(before)
    world.fact(before, "captured", within_s=60)
    kept = position(world, before)
    world.write(behind[0], of_next_release(world.next_event(behind[0])))
    world.publish(*behind[1:], elsewhere)
    world.fact(elsewhere, "captured")
    says(port, f"upgrade this process: schema {NEXT_SCHEMA_ID} is unknown")
    assert halted(port, "unknown_schema") == 1
    assert [world.row(attempt) for attempt in behind] == [None] * len(behind)
    assert world.end(old) == 0
    assert position(world, before) == kept
    world.launch("processor_worker", module="tests.worlds.upgraded_service")
    for attempt in behind:
        world.fact(attempt, "captured", within_s=60)
    effects = world.effects()
    assert all(effects[a["operation_id"]] == 1 for a in (before, *behind, elsewhere))


def test_a_record_that_is_no_event_stops_its_partition(world: AttemptsWorld) -> None:
    """Foreign bytes may have been an event: nothing behind them is carried out, and the position stays before them."""
    before, behind = in_one_partition(2)
    elsewhere = in_another_partition(before)
    worker, port = world.launch("processor_worker")
    world.publish(before)
    world.fact(before, "captured", within_s=60)
    kept = position(world, before)
    world.write(before, b"hello")
    world.publish(behind, elsewhere)
    world.fact(elsewhere, "captured")
    says(port, "is no event")
    assert world.row(behind) is None
    world.end(worker)
    assert position(world, before) == kept


def test_a_gap_stops_its_partition_until_its_owner_has_filled_it(world: AttemptsWorld) -> None:
    """An owner publishes again from the gap on: what came behind it before is dropped then, and taken once."""
    before, missing, behind = in_one_partition(3)
    _, port = world.launch("processor_worker")
    world.publish(before)
    world.fact(before, "captured", within_s=60)
    kept = position(world, before)
    first, second = world.next_event(missing), world.next_event(behind)
    world.write(behind, second)
    world.producer.flush()
    says(port, "missing")
    assert halted(port, "gap") == 1
    assert world.row(behind) is None
    assert position(world, before) == kept
    world.write(missing, first)
    world.write(behind, second)
    world.producer.flush()
    world.fact(missing, "captured")
    world.fact(behind, "captured")
    becomes(lambda: halted(port, "gap"), 0)


def test_events_that_kafka_deleted_unread_stop_their_partition(world: AttemptsWorld) -> None:
    """What was deleted is known to be missing: nobody goes on behind it as if it had never been."""
    before, deleted, behind = in_one_partition(3)
    worker, _ = world.launch("processor_worker")
    world.publish(before)
    world.fact(before, "captured", within_s=60)
    assert world.end(worker) == 0
    kept = position(world, before)
    world.publish(deleted)
    expire(world.settings.addresses().kafka, topics.EVENTS, partition_of(before))
    elsewhere = in_another_partition(before)
    world.publish(behind, elsewhere)
    _, port = world.launch("processor_worker")
    world.fact(elsewhere, "captured", within_s=60)
    says(port, "Kafka has deleted offsets")
    assert halted(port, "expired") == 1
    assert world.row(behind) is None
    assert position(world, before) == kept


def test_what_older_releases_committed_in_the_group_is_gone_on_from(world: AttemptsWorld) -> None:
    """A home of the release before has no row of the worker: its group's offset counts, once."""
    done, new = in_one_partition(2)
    partition = partition_of(done)
    world.publish(done)
    kafka = world.settings.addresses().kafka
    commit(world, partition, end_of(kafka, topics.EVENTS, partition))
    world.publish(new)
    with world.database() as connection:
        connection.execute("delete from stream_position")
    world.launch("processor_worker")
    world.fact(new, "captured", within_s=60)
    assert world.row(done) is None
    becomes(lambda: position(world, new), (end_of(kafka, topics.EVENTS, partition), world.last_seqs[partition]))


def in_one_partition(count: int) -> list[dict[str, Any]]:
    """Attempts whose events lie in one partition, which is another one each time."""
    first = new_attempt()
    while partition_of(first) in _USED:
        first = new_attempt()
    _USED.add(partition_of(first))
    found = [first]
    while len(found) < count:
        if partition_of(attempt := new_attempt()) == partition_of(first):
            found.append(attempt)
    return found


_USED: set[int] = set()  # partitions that tests of this module have stopped


def in_another_partition(attempt: dict[str, Any]) -> dict[str, Any]:
    while partition_of(other := new_attempt()) in (_USED | {partition_of(attempt)}):
        pass
    return other


def position(world: AttemptsWorld, attempt: dict[str, Any]) -> tuple[int, int]:
    """What is stored of the partition of this attempt, once it is behind everything that is done."""
    partition = partition_of(attempt)
    with world.database() as connection:
        return stored(connection, FOLLOWER)[partition]


def says(port: int, words: str) -> None:
    """The worker is not ready, and this is a part of the reason."""
    eventually(lambda: (told := readiness(port)) and told[0] == 503 and words in told[1], what=words)


def halted(port: int, reason: str) -> int:
    """How many partitions the metric counts."""
    lines = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=10).text.splitlines()
    name = f'millrace_stream_halted{{follower="{FOLLOWER}",reason="{reason}"}} '
    return next(int(float(line.removeprefix(name))) for line in lines if line.startswith(name))


def commit(world: AttemptsWorld, partition: int, offset: int) -> None:
    """As the release before did."""
    kafka = world.settings.addresses().kafka
    consumer = Consumer(kafka.consumer("test", "processor-attempts"))
    place = TopicPartition(kafka.topic(topics.EVENTS), partition, offset)
    consumer.commit(offsets=[place], asynchronous=False)
    consumer.close()
