"""Follows a service's events, and hands them to what is made of them: an event is behind us once that is done."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol

from dataflows import limits
from dataflows.worker.contract import WorkerPlace
from schemas.errors import Unavailable
from schemas.service import Service
from sinks.streams.follower import Followed, Follower
from sinks.streams.metrics import FollowerMetrics
from sinks.streams.positions import Taken


class Handler(Protocol):
    """What is made of events. It is given some of them again after a kill, and must not do a thing twice."""

    def take(self, taken: Sequence[Taken]) -> None:
        """Done with all of them when it returns. Raises Unavailable: they come again, from the stored positions."""

    def close(self) -> None:
        """The last call."""


class EventWorker:
    """One process of a worker over a service's events; several share its partitions out among them."""

    def __init__(self, place: WorkerPlace, service: Service, handler: Handler) -> None:
        followed = Followed(
            follower=place.name,
            topic=service.events_topic,
            group=place.name.replace("_", "-"),
            fetch_bytes_min=1,
            fetch_wait_ms=limits.WORKER_FETCH_WAIT_MS,
        )
        metrics = FollowerMetrics(place.name)
        self._follower = Follower(place.kafka, place.postgres_dsn, followed, place.client_id, metrics)
        self._handler = handler
        self._stop = threading.Event()

    def run(self) -> None:
        """Works until ``stop``, then leaves the group."""
        try:
            while not self._stop.is_set():
                self._round()
        finally:
            self._follower.close()
            self._handler.close()

    def stop(self) -> None:
        """Ends ``run`` after the events under way."""
        self._stop.set()

    def why_not_ready(self) -> str | None:
        """None while every partition that is ours goes on."""
        return self._follower.why_not_ready()

    def _round(self) -> None:
        taken = self._follower.read(limits.WORKER_EVENTS_MAX, limits.WORKER_POLL_MS / 1_000)
        if not taken:
            return
        try:
            self._handler.take(taken)
        except Unavailable as error:
            self._follower.begin_again(error)
        else:
            self._follower.mark_done(taken)
