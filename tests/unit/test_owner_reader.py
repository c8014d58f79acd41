"""What a reader hands on, and what it says when it cannot read."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaException

from dataflows import limits
from dataflows.owner.batch import Record
from dataflows.owner.partition.leases import Lease
from dataflows.owner.process import OwnerProcess
from dataflows.owner.reading.reader import Reader
from dataflows.owner.senders import Senders
from sinks.kafka.connection import KafkaConnection
from tests.eventually import eventually, patient
from tests.worlds.senders import KnownKeys

if TYPE_CHECKING:
    from collections.abc import Iterator

#: a lane that nobody wakes would wait so long: then the test's own bound ends it
FOR_EVER_S = 600.0


class EveryPartitionIsOurs:
    """Leases and publisher, as far as a reader asks them here."""

    owner_id = "test-reader"
    halted: tuple[int, ...] = ()

    def __init__(self, *, takes_turns: bool) -> None:
        self.service = SimpleNamespace(
            commands_topic="commands.none.v1", events_topic="events.none.v1", takes_turns=takes_turns
        )

    def get(self, partition: int) -> object:
        return partition

    served = 0

    def serve(self) -> None:
        self.served += 1

    def backlog(self) -> int:
        return 0

    def refusals(self) -> dict[int, str]:
        return {}


@pytest.fixture
def takes_turns() -> bool:
    """Whether the callers of the reader's service do."""
    return False


@pytest.fixture
def reader(takes_turns: bool) -> Iterator[Reader]:
    ours: Any = EveryPartitionIsOurs(takes_turns=takes_turns)
    nowhere = KafkaConnection(bootstrap="127.0.0.1:1")
    made = Reader(nowhere, None, ours, ours, "test-reader", Senders(KnownKeys()), threading.Event())  # type: ignore[arg-type] # nothing is taken from a database
    yield made
    made._consumer.close()


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


@pytest.mark.parametrize("what", ["it is told to stop", "another lane fails"])
def test_a_lane_that_rests_hears_at_once_that_it_is_to_end(reader: Reader, what: str) -> None:
    """However long it may rest: a drain that waited for it would be killed, and a failed owner would stand still."""
    process: Any = OwnerProcess.__new__(OwnerProcess)
    process.reader, process.failure = reader, None
    heard = threading.Event()

    def rests() -> None:
        assert reader.next_round(FOR_EVER_S) == []
        heard.set()

    reader.start()
    resting = threading.Thread(target=rests, daemon=True)
    resting.start()
    if what == "it is told to stop":
        reader._stop.set()
    else:
        process._turn(Mock(side_effect=KafkaException), Mock())
    assert heard.wait(patient(20))
    eventually(lambda: not reader._thread.is_alive(), what="the reading thread's end")


class Commands:
    """A consumer that has one command at each poll, and so many behind it; it notes how long it is asked to wait."""

    def __init__(self) -> None:
        self.behind = 0
        self.waits_s: list[float] = []

    def poll(self, _idle_s: float) -> SimpleNamespace:
        return SimpleNamespace(error=lambda: None, partition=lambda: 0, offset=lambda: 0)

    def consume(self, most: int, within_s: float) -> list[SimpleNamespace]:
        self.waits_s.append(within_s)
        found = [self.poll(0) for _ in range(min(most, self.behind))]
        self.behind -= len(found)
        return found

    def close(self) -> None:
        """Nothing is left to do."""


@pytest.mark.parametrize(
    ("takes_turns", "gap_ms"), [(False, limits.OWNER_READ_GAP_MS), (True, limits.TURNS_READ_GAP_MS)]
)
def test_commands_behind_a_read_gather_and_one_after_a_quiet_time_is_read_at_once(
    reader: Reader, gap_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction for each of many commands a second would cost more than all else that is done for them.

    Where callers take turns they gather for less: beside one that sends on and on, the others would wait each time.
    """
    now_s = 1_000.0
    monkeypatch.setattr("dataflows.owner.reading.reader.time", SimpleNamespace(monotonic=lambda: now_s))
    reader._consumer.close()
    commands = reader._consumer = Commands()  # type: ignore[assignment] # no group is joined
    gap_s = gap_ms / 1_000
    for after_s in (0.0, 0.0, gap_s / 2, gap_s, 60.0):
        now_s += after_s
        reader._read()
    assert commands.waits_s == pytest.approx([0.0, gap_s, gap_s / 2, 0.0, 0.0])


@pytest.mark.parametrize(
    ("takes_turns", "before", "now", "waits_ms"),
    [
        # a few senders: a transaction for one command each would cost most
        (False, 2, 1, [limits.OWNER_READ_GAP_MS, limits.OWNER_READ_GAP_OF_FEW_MS]),
        # hardly anybody sends: one who sends command after command would wait for nobody
        (False, 1, 1, [limits.OWNER_READ_GAP_MS]),
        (False, 2, limits.READ_FEW, [limits.OWNER_READ_GAP_MS]),
        (True, 2, 1, [limits.TURNS_READ_GAP_MS]),
    ],
)
def test_few_commands_wait_longer_for_others_while_several_send(
    reader: Reader, before: int, now: int, waits_ms: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dataflows.owner.reading.reader.time", SimpleNamespace(monotonic=lambda: 1_000.0))
    reader._consumer.close()
    commands = reader._consumer = Commands()  # type: ignore[assignment] # no group is joined
    for count in (before, now):
        commands.behind = count - 1
        commands.waits_s.clear()
        reader._read()
    assert commands.waits_s == pytest.approx([wait_ms / 1_000 for wait_ms in waits_ms])


def test_a_reader_takes_in_acknowledgements_while_no_lane_has_anything_to_do(reader: Reader) -> None:
    """Lanes rest for longer than a backlog may wait."""
    ours: Any = reader._publisher
    reader.start()
    eventually(lambda: ours.served > 0, what="acknowledgements taken in")
    reader.stop_reading()
    eventually(lambda: not reader._thread.is_alive(), what="the reading thread's end")


def test_what_was_decided_ahead_before_the_take_is_not_read_again_however_far_this_lease_came(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its position may pass that record before Kafka delivers it; taken for a new one, the owner would start over."""
    given: dict[str, Any] = {"leader_epoch": 0, "decided_at": 0, "signed_from": None, "ahead": {2: 0}}
    lease = Lease(0, 2, 0, last_seq=0, published_seq=0, state=Any, topic_id="t", offset_base=0, **given)  # type: ignore[arg-type]
    monkeypatch.setattr("dataflows.owner.reading.positions.record_of", lambda offset, *_, **__: Record(offset, b""))
    monkeypatch.setattr(EveryPartitionIsOurs, "get", lambda *_: lease)
    reader._positions.begin({0: lease})

    def read(offset: int) -> Record | None:
        return reader._positions.next_record(SimpleNamespace(), 0, offset)  # type: ignore[arg-type] # nothing is asked

    first = [record for record in (read(0), read(1)) if record is not None]
    lease.decided(first)
    assert (len(first), lease.next_offset) == (2, 3)
    assert read(2) is None
    following = read(3)
    assert following is not None
    assert following.offset == 3
