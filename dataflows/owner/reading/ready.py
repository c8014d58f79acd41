"""Batches that wait for a lane, in the order of reading. ``Rounds`` holds the lock around every call."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Container, Sequence
from typing import Protocol

from dataflows import limits
from dataflows.owner.batch import PartitionBatch
from dataflows.owner.reading.turns import Noise, Turns


class Waiting(Protocol):
    """The waiting records of one partition, or its first waiting batch."""

    partition: int

    @property
    def size(self) -> int:
        """In bytes."""

    @property
    def worth(self) -> int:
        """About how many records the next take gives."""

    def due_s(self) -> float:
        """The time from which on it may be taken, by the monotonic clock; 0 = at once."""

    def extended(self, batch: PartitionBatch) -> bool:
        """Adds a batch that was read later, if it may; whether it did."""

    def take(self) -> PartitionBatch:
        """The next batch; if its ``left`` is not None, more is waiting."""


class _Whole:
    """A batch that is taken as it is."""

    def __init__(self, batch: PartitionBatch) -> None:
        self.partition = batch.partition
        self.batch = batch

    @property
    def size(self) -> int:
        return self.batch.size

    @property
    def worth(self) -> int:
        return len(self.batch.records)

    def due_s(self) -> float:
        return 0.0

    def extended(self, batch: PartitionBatch) -> bool:
        fits = (
            self.batch.epoch == batch.epoch
            and len(self.batch.records) + len(batch.records) <= limits.BATCH_MESSAGES_MAX
            and self.batch.size + batch.size <= limits.BATCH_BYTES_MAX
        )
        if fits:
            self.batch.records += batch.records
            self.batch.size += batch.size
        return fits

    def take(self) -> PartitionBatch:
        return self.batch


class _InTurns:
    """All waiting records of a partition under one lease, given out in turns."""

    def __init__(self, batch: PartitionBatch, noise: Noise) -> None:
        self.partition, self.epoch, self.size = batch.partition, batch.epoch, batch.size
        self.turns = Turns(noise)
        self.turns.add(batch.records)

    @property
    def worth(self) -> int:
        return min(len(self.turns), limits.TURNS_OF_CALLER_UNITS_MAX)

    def due_s(self) -> float:
        return self.turns.due_s()

    def extended(self, batch: PartitionBatch) -> bool:
        fits = self.epoch == batch.epoch
        if fits:
            self.turns.add(batch.records)
            self.size += batch.size
        return fits

    def take(self) -> PartitionBatch:
        records, noisy = self.turns.take(time.monotonic())
        size = sum(len(record.value) for record in records)
        self.size -= size
        return PartitionBatch(self.partition, records, self.epoch, size, self.turns.lowest, noisy)


class Ready:
    """The queue of waiting batches. Where callers take turns, a partition goes to its end after its turn."""

    def __init__(self, *, takes_turns: bool) -> None:
        self._takes_turns = takes_turns
        self._noise: dict[int, Noise] = {}  # by partition; few
        self._waiting: deque[Waiting] = deque()
        self._messages = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def is_full(self) -> bool:
        """Whether enough is decoded ahead, counted in messages so that many small batches do not stop the reading."""
        return (
            self._messages >= limits.BATCHES_AHEAD_MAX * limits.BATCH_MESSAGES_MAX
            or sum(waiting.size for waiting in self._waiting) >= limits.BATCHES_AHEAD_MAX * limits.BATCH_BYTES_MAX
        )

    def put(self, batch: PartitionBatch) -> bool:
        """Adds a batch. True if it waits on its own, False if it joined what waits of its partition."""
        self._messages += len(batch.records)
        if self._extended(batch):
            return False
        noise = self._noise.setdefault(batch.partition, Noise())
        waiting: Waiting = _InTurns(batch, noise) if self._takes_turns else _Whole(batch)
        self._waiting.append(waiting)
        return True

    def _extended(self, batch: PartitionBatch) -> bool:
        for waiting in reversed(self._waiting):
            if waiting.partition == batch.partition:
                if waiting.extended(batch):
                    return True
                if not self._takes_turns:  # with turns it may lie before what is left of an earlier lease
                    return False
        return False

    def free(self, taken: Container[int]) -> list[Waiting]:
        """What one lane may take now: at most one good transaction, so that other lanes get the rest."""
        found: list[Waiting] = []
        messages, now_s = 0, time.monotonic()
        seen = set[int]()
        for waiting in self._waiting:
            if messages >= limits.ROUND_MESSAGES_ENOUGH:
                break
            if waiting.partition not in taken and waiting.partition not in seen:
                seen.add(waiting.partition)
                if waiting.due_s() > now_s:
                    continue
                found.append(waiting)
                messages += waiting.worth
        return found

    def due_within(self, most_s: float) -> float:
        """The seconds until something is due, at most those given."""
        now_s = time.monotonic()
        return min([most_s, *(due_s - now_s for waiting in self._waiting if (due_s := waiting.due_s()) > now_s)])

    def take(self, free: Sequence[Waiting]) -> list[PartitionBatch]:
        """The next batches of these partitions."""
        self._waiting = deque(waiting for waiting in self._waiting if all(waiting is not one for one in free))
        batches = [waiting.take() for waiting in free]
        self._messages -= sum(len(batch.records) for batch in batches)
        self._waiting.extend(waiting for waiting, batch in zip(free, batches, strict=True) if batch.left is not None)
        return batches

    def clear(self) -> list[int]:
        """Drops all that waits. Returns its partitions, each as often as ``put`` and ``take`` counted it."""
        partitions = [waiting.partition for waiting in self._waiting]
        self._waiting.clear()
        self._messages = 0
        return partitions
