"""Follows a service's events, and sends the commands that are made of each: every one has its effect once.

An event is behind us once Kafka has its commands on all replicas. Killed before that, or before the position is stored,
the same commands are sent again under the same identities, and the owner drops them. If identities were drawn anew, a
restart would do things twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka import Producer

from dataflows.owner import fail_points
from dataflows.worker.contract import WorkerPlace
from schemas import identity, limits
from schemas.errors import Unavailable
from schemas.operation import Operation
from schemas.records import Command, Event
from schemas.senders import WORKER_SCOPE
from schemas.service import Service
from sinks.kafka.delivery import command_letter, why_not_delivered
from sinks.streams.follower import Followed, Follower
from sinks.streams.metrics import FollowerMetrics

React = Callable[[Event], Sequence[Command]]  # pure: the same event makes the same commands for ever
_NOBODY: Final = -1


def command_of(event: Event, operation: Operation, worker: str, payload: dict[str, Any]) -> Command:
    """A command to the event's own aggregate. Its identity is the event's, so that it is carried out once."""
    return Command(
        operation=operation.name,
        request_id=f"{worker}:{event.event_id}",
        idempotency_key=f"{operation.name}:{event.event_id}",
        aggregate_key=event.aggregate_key,
        expected_version=None,
        scope=f"{WORKER_SCOPE}{worker}",
        request_hash=identity.request_hash(operation.template, event.aggregate_key, payload),
        trace_id=event.trace_id,
        issued_at=event.occurred_at,
        deadline_at=0,
        reply_to=_NOBODY,
        reply_id=0,
        payload=payload,
    )


class Reactor:
    """One process of a worker over a service's events; several share its partitions out among them."""

    def __init__(self, place: WorkerPlace, service: Service, react: React) -> None:
        followed = Followed(
            follower=place.name,
            topic=service.events_topic,
            group=place.name.replace("_", "-"),
            fetch_bytes_min=1,
            fetch_wait_ms=limits.WORKER_FETCH_WAIT_MS,
        )
        metrics = FollowerMetrics(place.name)
        self._kafka = place.kafka
        self._react = react
        self._follower = Follower(place.kafka, place.postgres_dsn, followed, place.client_id, metrics)
        self._producer = Producer(place.kafka.producer(place.client_id))
        self._stop = threading.Event()

    def run(self) -> None:
        """Reacts until ``stop``, then leaves the group."""
        try:
            while not self._stop.is_set():
                self._round()
        finally:
            self._follower.close()

    def stop(self) -> None:
        """Ends ``run`` after the events under way."""
        self._stop.set()

    def why_not_ready(self) -> str | None:
        """None while every partition that is ours goes on."""
        return self._follower.why_not_ready()

    def _round(self) -> None:
        taken = self._follower.read(limits.WORKER_EVENTS_MAX, limits.WORKER_POLL_MS / 1_000)
        letters = [
            command_letter(self._kafka, one)
            for t in taken
            for accepted in t.events
            for one in self._react(accepted.event)
        ]
        if letters:
            if reason := why_not_delivered(self._kafka, self._producer, letters):
                self._follower.begin_again(Unavailable(f"Kafka does not take commands: {reason}"))
                return
            fail_points.reach("worker_after_send")
        self._follower.mark_done(taken)
