"""Fan-out: follows the events of social posts, and writes what they show into homes. Any number of processes share it.

An event is behind us once its homes are written; killed before that, it is spread again and changes nothing.
"""

from __future__ import annotations

import threading
from typing import Final

import psycopg
from redis.exceptions import RedisError

from dataflows.social.fanout.spread import Spread
from dataflows.worker.contract import WorkerPlace
from schemas import limits
from schemas.errors import Unavailable
from schemas.social.service import SERVICE
from sinks.postgres.session import INDEXED
from sinks.redis.homes import HomeWriter
from sinks.streams.follower import Followed, Follower
from sinks.streams.metrics import FollowerMetrics

_OUTAGES: Final = (psycopg.OperationalError, psycopg.InterfaceError, RedisError, OSError)
_SESSION: Final = f"{INDEXED} -c statement_timeout={limits.POSTGRES_STATEMENT_TIMEOUT_MS}"


class FanOut:
    """One process of it."""

    def __init__(self, place: WorkerPlace) -> None:
        followed = Followed(
            follower=place.name,
            topic=SERVICE.events_topic,
            group=place.name.replace("_", "-"),
            fetch_bytes_min=1,
            fetch_wait_ms=limits.WORKER_FETCH_WAIT_MS,
        )
        self._follower = Follower(
            place.kafka, place.postgres_dsn, followed, place.client_id, FollowerMetrics(place.name)
        )
        self._dsn = place.postgres_dsn
        self._homes = HomeWriter(place.redis_url)
        self._connection: psycopg.Connection | None = None
        self._stop = threading.Event()

    def run(self) -> None:
        """Spreads until ``stop``, then leaves the group."""
        try:
            while not self._stop.is_set():
                self._round()
        finally:
            self._follower.close()
            self._disconnect()
            self._homes.close()

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
            spread = Spread(self._connected(), self._homes)
            for one in taken:
                for accepted in one.events:
                    spread.event(accepted.event)
        except _OUTAGES as error:  # all of it again, from the stored positions
            self._disconnect()
            self._follower.begin_again(Unavailable(f"homes cannot be written: {type(error).__name__}"))
            return
        self._follower.mark_done(taken)

    def _connected(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(
                self._dsn,
                autocommit=True,
                connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S,
                options=_SESSION,
                application_name="millrace-social-fanout",
            )
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def build(place: WorkerPlace) -> FanOut:
    """One process of it."""
    return FanOut(place)
