"""What was read, handed to lanes: bounded, and of each partition one batch at a time, in its order.

Any thread may call, and whoever waits is woken by the other side.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Final

from dataflows import limits
from dataflows.owner.batch import PartitionBatch
from dataflows.owner.ready import Ready

_POLL_S: Final = limits.BATCH_POLL_TIMEOUT_MS / 1_000


class Rounds:
    """Batches that wait for a lane, or are in work with one."""

    def __init__(self, stopping: threading.Event, *, takes_turns: bool) -> None:
        self._stopping = stopping  # then nothing more is put in
        lock = threading.Lock()  # guards what follows, down to the counter
        self._offered = threading.Condition(lock)  # lanes wait here: one more batch is worth one of them
        self._settled = threading.Condition(lock)  # and here, with a few commands: for no lane to be at work any more
        self._changed = threading.Condition(lock)  # for room, and for a partition to be idle
        self._ready = Ready(takes_turns=takes_turns)
        self.taken: set[int] = set()  # partitions of which a lane has a batch in work
        self._in_work: Counter[int] = Counter()  # batches ready or taken, per partition

    def next(self, timeout_s: float) -> list[PartitionBatch]:
        """The oldest batches of partitions that no lane has in work, one of each; none when none came in time.

        Until ``done`` nobody gets another batch of those partitions. While another lane is at work a few commands wait
        for a moment, for others that go with them.
        """
        with self._offered:
            free = self._ready.free(self.taken)
            if not free and self._offered.wait(self._ready.due_within(timeout_s)):
                free = self._ready.free(self.taken)
            if free and self.taken and sum(waiting.worth for waiting in free) < limits.ROUND_MESSAGES_ENOUGH:
                self._settled.wait(limits.ROUND_GATHER_MS / 1_000)
                free = self._ready.free(self.taken)
            if not free:
                return []
            batches = self._ready.take(free)
            self.taken.update(batch.partition for batch in batches)
            self._in_work.update(batch.partition for batch in batches if batch.left is not None)
            self._changed.notify_all()
            return batches

    def done(self, partition: int) -> None:
        """The batch that was taken is committed and published, or dropped; a lane or a revocation may wait for that."""
        with self._changed:
            self.taken.discard(partition)
            self._in_work[partition] -= 1
            if not self.taken:
                self._settled.notify_all()
            if self._ready:  # it may be of this partition
                self._offered.notify()
            self._changed.notify_all()

    def put(self, batch: PartitionBatch) -> None:
        """Waits for room; what was read when reading has ended is dropped."""
        with self._changed:
            while self._ready.is_full() and not self._stopping.is_set():
                self._changed.wait(_POLL_S)
            if self._stopping.is_set():
                return
            if self._ready.put(batch):
                self._in_work[batch.partition] += 1
            self._offered.notify()  # what was not due before may be now

    @property
    def is_empty(self) -> bool:
        """Whether everything that was put in was taken."""
        return not self._ready

    def discard(self) -> None:
        """What waits is dropped."""
        with self._changed:
            self._in_work.subtract(self._ready.clear())
            self._changed.notify_all()

    def wait_until_idle(self, partitions: set[int]) -> None:
        """Until nothing of these waits or is in work; for ``OWNER_DRAIN_TIMEOUT_S`` at most."""
        deadline = time.monotonic() + limits.OWNER_DRAIN_TIMEOUT_S
        with self._changed:
            while any(self._in_work[p] > 0 for p in partitions) and time.monotonic() < deadline:
                self._changed.wait(_POLL_S)
