"""Reads the event stream in batches, for the worker's loop. A position is stored behind what its caller made durable.

An event may come again: the primary key of ``attempt_dispatch`` makes a duplicate harmless. None is passed over: it
would be an attempt that nobody carries out.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from dataflows.payments.attempts.dispatch import Change, changes_of, fold
from schemas.payments import limits, topics
from sinks.streams.follower import Followed

if TYPE_CHECKING:
    from sinks.streams.follower import Follower
    from sinks.streams.positions import Taken

FOLLOWED: Final = Followed(
    follower="processor_attempts",
    topic=topics.EVENTS,
    group="processor-attempts",
    gather_ms=limits.ATTEMPT_GATHER_MS,
)


@dataclass(frozen=True, slots=True)
class EventBatch:
    """What one poll brought: a change per attempt, and the events that they are of."""

    changes: list[Change] = field(default_factory=list)
    taken: list[Taken] = field(default_factory=list)


class AttemptEventReader:
    """The follower of one worker; one thread talks to it, so that the loop never waits for Kafka."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="event-reader")

    def why_not_ready(self) -> str | None:
        """None while every partition that is ours goes on; otherwise what is to be done."""
        return self._follower.why_not_ready()

    async def read(self) -> EventBatch:
        """The next batch; empty after a short wait."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read)

    def mark_durable(self, batch: EventBatch) -> None:
        """The caller has made this batch durable. Not to be called while ``read`` runs."""
        self._follower.mark_done(batch.taken)

    async def close(self) -> None:
        """Stores the positions and leaves the group at once."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._follower.close)
        self._thread.shutdown()

    def _read(self) -> EventBatch:
        taken = self._follower.read(limits.ATTEMPT_EVENTS_BATCH_MAX, limits.ATTEMPT_EVENTS_POLL_MS / 1_000)
        changes = [change for one in taken for accepted in one.events for change in changes_of(accepted.event)]
        return EventBatch(fold(changes), taken)
