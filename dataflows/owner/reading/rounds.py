"""Hands what was read to lanes: bounded, one batch of each partition at a time, in order.

Any thread may call; each side wakes the other.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from dataflows import limits
from dataflows.owner.batch import PartitionBatch
from dataflows.owner.reading.ready import Ready

_POLL_S: Final = limits.BATCH_POLL_TIMEOUT_MS / 1_000


class Rounds:
    """Batches that wait for a lane or are in work."""

    def __init__(self, stopping: threading.Event, *, takes_turns: bool) -> None:
        self._stopping = stopping  # once set, nothing more is put in
        lock = threading.Lock()  # guards what follows, down to the counter
        self._offered = threading.Condition(lock)  # lanes wait here; each new batch wakes one
        self._settled = threading.Condition(lock)  # lanes with few commands wait here until no other lane works
        self._changed = threading.Condition(lock)  # waits for room, or for a partition to be idle
        self._ready = Ready(takes_turns=takes_turns)
        self.taken: set[int] = set()  # partitions of which a lane has a batch in work
        self._in_work: Counter[int] = Counter()  # batches ready or taken, per partition

    def next(self, timeout_s: float) -> list[PartitionBatch]:
        """The oldest batches of partitions that no lane works on, one of each; none if none came in time.

        Until ``done`` nobody gets another batch of those partitions. While another lane works, a few commands wait for
        a moment so that others can join them.
        """
        with self._offered:
            free = self._ready.free(self.taken)
            if not free and self._offered.wait(self._ready.due_within(self._at_most(timeout_s))):
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

    def wake(self) -> None:
        """Lanes that wait look again: at what is to be acknowledged, or whether they are to end."""
        with self._offered:
            self._offered.notify_all()

    def _at_most(self, timeout_s: float) -> float:
        """How long a lane waits: one that may end soon asks again soon, however late it heard that it was woken."""
        return min(timeout_s, _POLL_S) if self._stopping.is_set() else timeout_s

    def done(self, partition: int) -> None:
        """Notes that the batch is committed and published, or dropped; lanes and revocations wait for that."""
        with self._changed:
            self.taken.discard(partition)
            self._in_work[partition] -= 1
            if not self.taken:
                self._settled.notify_all()
            if self._ready:  # it may be of this partition
                self._offered.notify()
            self._changed.notify_all()

    def put(self, batches: Sequence[PartitionBatch]) -> None:
        """Adds what one read found, each batch once there is room; drops the rest if reading has ended.

        Few commands wake one lane, which takes them in one round.
        """
        with self._changed:
            for batch in batches:
                while self._ready.is_full() and not self._stopping.is_set():
                    self._offered.notify()
                    self._changed.wait(_POLL_S)
                if self._stopping.is_set():
                    return
                if self._ready.put(batch):
                    self._in_work[batch.partition] += 1
            # also a batch that was not due may be due now
            self._offered.notify(1 + sum(len(batch.records) for batch in batches) // limits.ROUND_MESSAGES_ENOUGH)

    @property
    def is_empty(self) -> bool:
        """Whether no batch waits."""
        return not self._ready

    def discard(self) -> None:
        """Drops all that waits."""
        with self._changed:
            self._in_work.subtract(self._ready.clear())
            self._changed.notify_all()

    def wait_until_idle(self, partitions: set[int]) -> None:
        """Waits until nothing of these waits or is in work, at most ``OWNER_DRAIN_TIMEOUT_S``."""
        deadline = time.monotonic() + limits.OWNER_DRAIN_TIMEOUT_S
        with self._changed:
            while any(self._in_work[p] > 0 for p in partitions) and time.monotonic() < deadline:
                self._changed.wait(_POLL_S)
