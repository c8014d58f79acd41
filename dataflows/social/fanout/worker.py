"""Fan-out: follows the events of social posts, and writes what they show into homes. Any number of processes share it.

Killed before its homes are written, an event is spread again and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import psycopg
from redis.exceptions import RedisError

from dataflows.owner import fail_points
from dataflows.social.config import SocialConfig
from dataflows.social.fanout.spread import Spread
from dataflows.worker.contract import WorkerPlace
from dataflows.worker.event_worker import EventWorker
from schemas.errors import Unavailable
from schemas.social.service import SERVICE
from sinks import limits
from sinks.postgres.session import INDEXED
from sinks.redis.homes import HomeWriter
from sinks.streams.positions import Taken

_OUTAGES: Final = (psycopg.OperationalError, psycopg.InterfaceError, RedisError, OSError)
_SESSION: Final = f"{INDEXED} -c statement_timeout={limits.POSTGRES_STATEMENT_TIMEOUT_MS}"


class FanOut:
    """What is made of events: entries of homes."""

    def __init__(self, place: WorkerPlace) -> None:
        self._dsn = place.postgres_dsn
        self._homes = HomeWriter(place.of_service(SocialConfig).homes_url)
        self._connection: psycopg.Connection | None = None

    def take(self, taken: Sequence[Taken]) -> None:
        """All of it is in the homes when it returns. Raises Unavailable."""
        try:
            spread = Spread(self._connected(), self._homes)
            fail_points.reach("fanout_before_deliveries")
            spread.events(accepted.event for one in taken for accepted in one.events)
            fail_points.reach("fanout_after_deliveries")
        except _OUTAGES as error:
            self._disconnect()
            raise Unavailable(f"homes cannot be written: {type(error).__name__}") from error

    def close(self) -> None:
        """Leaves the servers."""
        self._disconnect()
        self._homes.close()

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


def build(place: WorkerPlace) -> EventWorker:
    """One process of it."""
    return EventWorker(place, SERVICE, FanOut(place))
