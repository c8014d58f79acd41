"""How lanes take what was read: nothing waits for a timeout, and a partition is in one lane at a time, in its order."""

from __future__ import annotations

import threading
from collections import defaultdict
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException

from dataflows import limits
from dataflows.owner.batch import PartitionBatch, Record
from dataflows.owner.leases import Lease
from dataflows.owner.reader import Reader
from dataflows.owner.senders import Senders
from sinks.kafka.connection import KafkaConnection
from tests.eventually import eventually, patient
from tests.worlds.senders import KnownKeys

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS = 3
BATCHES = 600
#: a lane or the reader that nobody wakes would wait so long: then the test's own bound ends it
FOR_EVER_S = 600.0


class EveryPartitionIsOurs:
    """Leases and publisher, as far as the queue of a reader asks them."""

    owner_id = "test-reader"
    service = type(
        "Service", (), {"commands_topic": "commands.none.v1", "events_topic": "events.none.v1", "takes_turns": False}
    )
    halted: tuple[int, ...] = ()

    def get(self, partition: int) -> object:
        return partition

    def backlog(self) -> int:
        return 0

    def refusals(self) -> dict[int, str]:
        return {}


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    monkeypatch.setattr("dataflows.owner.reader._POLL_S", FOR_EVER_S)
    ours: Any = EveryPartitionIsOurs()
    nowhere = KafkaConnection(bootstrap="127.0.0.1:1")
    made = Reader(nowhere, None, ours, ours, "test-reader", Senders(KnownKeys()))  # type: ignore[arg-type] # a queue asks no database
    yield made
    made._consumer.close()


@pytest.mark.parametrize("lanes", [1, 2, 3])
def test_every_batch_is_taken_at_once_and_in_the_order_of_its_partition(
    reader: Reader, monkeypatch: pytest.MonkeyPatch, lanes: int
) -> None:
    """The queue is bounded: it is full, and empty, again and again; whoever waits then is woken by the other side."""
    taken: dict[int, list[int]] = defaultdict(list)
    in_work: set[int] = set()
    broken: list[str] = []
    counting = threading.Lock()
    all_done = threading.Event()
    monkeypatch.setattr(limits, "BATCH_MESSAGES_MAX", 1)  # no batch is extended, and a few fill the queue

    def lane() -> None:
        while not all_done.is_set():
            for batch in reader.next_round(FOR_EVER_S):
                if batch.partition in in_work:
                    broken.append(f"partition {batch.partition} is in two lanes")
                in_work.add(batch.partition)
                with counting:
                    taken[batch.partition].append(batch.records[0].offset)
                    is_last = sum(map(len, taken.values())) == BATCHES
                in_work.discard(batch.partition)
                reader.done(batch.partition)
                if is_last:
                    all_done.set()
                    with reader._offered:
                        reader._offered.notify_all()

    threads = [threading.Thread(target=lane, daemon=True) for _ in range(lanes)]
    for thread in threads:
        thread.start()
    for n in range(BATCHES):
        reader._put(PartitionBatch(n % PARTITIONS, [Record(n, b"")], epoch=1))
    assert all_done.wait(patient(60))
    assert broken == []
    for partition, offsets in taken.items():
        assert offsets == list(range(partition, BATCHES, PARTITIONS))
    assert len(reader._ready) == 0 < limits.BATCHES_AHEAD_MAX


def test_a_reader_that_gets_into_no_group_says_so_to_every_lane(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An end that a lane took for a drain would start the owner over in silence, at once and for ever."""
    monkeypatch.setattr(limits, "OWNER_JOIN_TIMEOUT_S", 0.1)
    reader.start()
    eventually(lambda: not reader._thread.is_alive(), what="the reading thread's end")
    for look in (lambda: reader.drained, lambda: reader.next_round(FOR_EVER_S)):
        with pytest.raises(KafkaException, match="Not in the consumer group"):
            look()


def test_what_was_decided_ahead_before_the_take_is_not_read_again_however_far_this_lease_came(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its position may pass that record before Kafka delivers it; taken for a new one, the owner would start over."""
    given: dict[str, Any] = {"leader_epoch": 0, "decided_at": 0, "signed_from": None, "ahead": {2: 0}}
    lease = Lease(0, 2, 0, last_seq=0, published_seq=0, state=Any, topic_id="t", offset_base=0, **given)  # type: ignore[arg-type]
    monkeypatch.setattr("dataflows.owner.reader.record_of", lambda offset, *_, **__: Record(offset, b""))
    monkeypatch.setattr(EveryPartitionIsOurs, "get", lambda *_: lease)
    reader._begin({0: lease})

    def read(offset: int) -> Record | None:
        return reader._next_record(SimpleNamespace(offset=lambda: offset), 0)  # type: ignore[arg-type] # all that is asked

    first = [record for record in (read(0), read(1)) if record is not None]
    lease.decided(first)
    assert (len(first), lease.next_offset) == (2, 3)
    assert read(2) is None
    following = read(3)
    assert following is not None
    assert following.offset == 3
