"""How lanes take what was read: nothing waits for a timeout, and a partition is in one lane at a time, in its order."""

from __future__ import annotations

import threading
from collections import defaultdict

import pytest

from dataflows import limits
from dataflows.owner.batch import PartitionBatch, Record
from dataflows.owner.reading.rounds import Rounds
from tests.eventually import eventually, patient

PARTITIONS = 3
BATCHES = 600
#: a lane or the reader that nobody wakes would wait so long: then the test's own bound ends it
FOR_EVER_S = 600.0


@pytest.mark.parametrize("lanes", [1, 2, 3])
def test_every_batch_is_taken_at_once_and_in_the_order_of_its_partition(
    monkeypatch: pytest.MonkeyPatch, lanes: int
) -> None:
    """The queue is bounded: it is full, and empty, again and again; whoever waits then is woken by the other side."""
    monkeypatch.setattr("dataflows.owner.reading.rounds._POLL_S", FOR_EVER_S)
    rounds = Rounds(threading.Event(), takes_turns=False)
    taken: dict[int, list[int]] = defaultdict(list)
    in_work: set[int] = set()
    broken: list[str] = []
    counting = threading.Lock()
    all_done = threading.Event()
    monkeypatch.setattr(limits, "BATCH_MESSAGES_MAX", 1)  # no batch is extended, and a few fill the queue

    def lane() -> None:
        while not all_done.is_set():
            for batch in rounds.next(FOR_EVER_S):
                if batch.partition in in_work:
                    broken.append(f"partition {batch.partition} is in two lanes")
                in_work.add(batch.partition)
                with counting:
                    taken[batch.partition].append(batch.records[0].offset)
                    is_last = sum(map(len, taken.values())) == BATCHES
                in_work.discard(batch.partition)
                rounds.done(batch.partition)
                if is_last:
                    all_done.set()
                    with rounds._offered:
                        rounds._offered.notify_all()

    threads = [threading.Thread(target=lane, daemon=True) for _ in range(lanes)]
    for thread in threads:
        thread.start()
    for n in range(BATCHES):
        rounds.put([PartitionBatch(n % PARTITIONS, [Record(n, b"")], epoch=1)])
    assert all_done.wait(patient(60))
    assert broken == []
    for partition, offsets in taken.items():
        assert offsets == list(range(partition, BATCHES, PARTITIONS))
    assert rounds.is_empty


def test_few_commands_wake_one_lane_which_takes_them_in_one_round() -> None:
    """Each lane that wakes for nothing costs as much as a command."""
    rounds = Rounds(threading.Event(), takes_turns=False)
    taken: list[list[int]] = []

    def lane() -> None:
        taken.append([batch.partition for batch in rounds.next(FOR_EVER_S)])

    threads = [threading.Thread(target=lane, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(rounds._offered._waiters) == 3, what="three lanes that wait")  # type: ignore[attr-defined]
    for first in (0, 3, 6):
        rounds.put([PartitionBatch(first + n, [Record(0, b"")], epoch=1) for n in range(3)])
        eventually(lambda most=first: len(taken) > most // 3, what="a lane that took them")  # type: ignore[misc]
    assert taken == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
