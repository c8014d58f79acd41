"""Follows a service's events, and hands them to what is made of them: an event is behind us once that is done."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import psycopg

from dataflows import limits
from dataflows.owner.transaction.size import TransactionSize
from dataflows.worker.contract import WorkerPlace
from schemas.errors import Fenced, Unavailable
from schemas.service import Service
from sinks.postgres import owner_connection
from sinks.postgres.owner_connection import OwnerConnection
from sinks.streams.follower import Followed, Follower
from sinks.streams.metrics import FollowerMetrics
from sinks.streams.positions import Taken


class Handler(Protocol):
    """What is made of events. It is given some of them again after a kill, and must not do a thing twice."""

    def take(self, taken: Sequence[Taken]) -> None:
        """Done with all of them when it returns. Raises Unavailable: they come again, from the stored positions."""

    def rest(self) -> bool:
        """Does a bounded part of what it put off; True: at once again, after the next events. Raises Unavailable."""

    def close(self) -> None:
        """The last call."""


class _Following(ABC):
    """One member of a group that shares out the partitions of a service's events."""

    def __init__(self, place: WorkerPlace, service: Service, group: str = "") -> None:
        followed = Followed(
            follower=place.name,
            topic=service.events_topic,
            group=group or place.name.replace("_", "-"),
        )
        metrics = FollowerMetrics(place.name)
        self._follower = Follower(place.kafka, place.postgres_dsn, followed, place.client_id, metrics)
        self._stop = threading.Event()
        self._size = TransactionSize(limits.WORKER_EVENTS_MAX)

    def run(self) -> None:
        """Works until ``stop``, then leaves the group."""
        has_more = False
        try:
            while not self._stop.is_set():
                wait_s = 0.0 if has_more else limits.WORKER_POLL_MS / 1_000
                if taken := self._follower.read(self._size.at_most, wait_s):
                    self._take(taken)
                has_more = self._rest()
        finally:
            self._follower.close()
            self._close()

    def stop(self) -> None:
        """Ends ``run`` after the events under way."""
        self._stop.set()

    def why_not_ready(self) -> str | None:
        """None while every partition that is ours goes on."""
        return self._follower.why_not_ready()

    @abstractmethod
    def _take(self, taken: Sequence[Taken]) -> None:
        """Does what is to be done with events, and with their positions."""

    def _rest(self) -> bool:
        """Does a part of what was put off; True: there is more."""
        return False

    @abstractmethod
    def _close(self) -> None:
        """The last call."""


class EventWorker(_Following):
    """One process of a worker: each event is its handler's at least once."""

    def __init__(self, place: WorkerPlace, service: Service, handler: Handler) -> None:
        super().__init__(place, service)
        self._handler = handler

    def _take(self, taken: Sequence[Taken]) -> None:
        try:
            self._handler.take(taken)
        except Unavailable as error:
            self._follower.begin_again(error)
        else:
            self._follower.mark_done(taken)

    def _rest(self) -> bool:
        try:
            return self._handler.rest()
        except Unavailable as error:
            self._follower.begin_again(error)
            return False

    def _close(self) -> None:
        self._handler.close()


class CountingWorker(_Following):
    """What ``count`` writes of events and the positions behind them are one transaction: each event counts once.

    ``begin`` is called on every new connection. What Postgres refuses comes again, from the stored positions; what took
    too long, in smaller transactions.
    """

    def __init__(
        self,
        place: WorkerPlace,
        service: Service,
        begin: Callable[[OwnerConnection], None],
        count: Callable[[OwnerConnection, Sequence[Taken]], None],
        group: str = "",
    ) -> None:
        super().__init__(place, service, group)
        self._connected = partial(owner_connection.connect, place.postgres_dsn, place.client_id)
        self._begin = begin
        self._count = count
        self._connection: OwnerConnection | None = None

    def _take(self, taken: Sequence[Taken]) -> None:
        events, began = sum(len(one.events) for one in taken), time.monotonic()
        try:
            if self._connection is None:
                self._connection = self._connected()
                self._begin(self._connection)
                began = time.monotonic()
            with self._connection.transaction():
                self._count(self._connection, taken)
                self._follower.advance(self._connection, taken)
        except (psycopg.OperationalError, psycopg.InterfaceError, Fenced) as error:
            self._size.failed(events, time.monotonic() - began)
            self._close()
            self._follower.begin_again(error)
        else:
            self._size.committed(events)

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
