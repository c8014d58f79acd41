"""Fan-out: follows the events of social posts, and writes what they show into homes. Any number of processes share it.

Killed before its homes are written, an event is spread again and changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import psycopg
from redis.exceptions import RedisError

from dataflows.owner import fail_points
from dataflows.social.config import SocialConfig
from dataflows.social.fanout.counting import Counting, delays_us
from dataflows.social.fanout.spread import Spread, is_pushed
from dataflows.worker.contract import WorkerPlace
from dataflows.worker.event_worker import EventWorker
from schemas.errors import Unavailable
from schemas.social import limits as limits_of_posts
from schemas.social.service import SERVICE
from sinks import limits
from sinks.postgres.session import INDEXED, Session
from sinks.redis.homes import HomeWriter
from sinks.streams.positions import Taken

_OUTAGES: Final = (psycopg.OperationalError, psycopg.InterfaceError, RedisError, OSError)
#: a process that stands still keeps what waits from the others no longer than this
_SESSION: Final = (
    f"{INDEXED} -c statement_timeout={limits.POSTGRES_STATEMENT_TIMEOUT_MS}"
    f" -c idle_in_transaction_session_timeout={int(limits_of_posts.FANOUT_LOOK_S * 1_000)}"
)


class FanOut:
    """What is made of events: entries of homes."""

    def __init__(self, place: WorkerPlace) -> None:
        self._dsn = place.postgres_dsn
        self._follower = place.name
        self._homes = HomeWriter(place.of_service(SocialConfig).homes_url)
        self._connection: psycopg.Connection | None = None
        self._look_at = 0.0  # for what waits

    def take(self, taken: Sequence[Taken]) -> None:
        """What is at once is in the homes when it returns, the rest waits in Postgres. Raises Unavailable."""
        with self._reaching() as spread:
            fail_points.reach("fanout_before_deliveries")
            self._spread(spread, taken)
            fail_points.reach("fanout_after_deliveries")
        self._look_at = 0.0

    def _spread(self, spread: Spread, taken: Sequence[Taken]) -> None:
        """What a process that was killed had counted already is spread again, and counts no more."""
        counting = Counting(self._connected(), self._follower)
        known = counting.known(taken)
        events = [(one.event, known[part.partition]) for part in taken for one in part.events]
        if again := [event for event, last_seq in events if event.seq <= last_seq]:
            spread.events(again)
        if fresh := [event for event, last_seq in events if event.seq > last_seq]:
            work = spread.events(fresh)
            delay_us = delays_us([event for event in fresh if is_pushed(event)])
            counting.add(taken, known, work._replace(delay_us=delay_us))

    def rest(self) -> bool:
        """Some of what waits, of any process. Raises Unavailable: then it still waits."""
        if time.monotonic() < self._look_at:
            return False
        with self._reaching() as spread:
            has_more = spread.rest()
        self._look_at = 0.0 if has_more else time.monotonic() + limits_of_posts.FANOUT_LOOK_S
        return has_more

    @contextmanager
    def _reaching(self) -> Iterator[Spread]:
        try:
            yield Spread(self._connected(), self._homes)
        except _OUTAGES as error:
            self._disconnect()
            raise Unavailable(f"homes cannot be written: {type(error).__name__}") from error

    def close(self) -> None:
        """Leaves the servers."""
        self._disconnect()
        self._homes.close()

    def _connected(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            self._connection = Session.connect(
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


def build(place: WorkerPlace) -> EventWorker:
    """One process of it."""
    return EventWorker(place, SERVICE, FanOut(place))
