"""Waits for the place of who follows a stream of records: of two that took it from each other neither would get on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import psycopg
import structlog

from sinks import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    import threading

SQL: Final = queries("sinks.streams", "positions.sql")
_log: Final = structlog.get_logger(__name__)


class StandBy:
    """Before a follower claims the positions of a topic. Any number of its processes may run."""

    def __init__(self, dsn: str, follower: str, topic: str) -> None:
        self._dsn = dsn
        self._named = {"follower": follower, "topic": topic, "lease_s": limits.STREAM_LEASE_S}
        self._follower = follower
        self.is_waiting = False

    def wait(self, stop: threading.Event) -> None:
        """Until nobody follows: it left, or said nothing for ``STREAM_LEASE_S``. Or until ``stop``.

        Releases before this one said nothing at all. Raises psycopg.OperationalError.
        """
        try:
            with psycopg.connect(
                self._dsn, autocommit=True, connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S
            ) as connection:
                while not stop.is_set() and self._is_followed(connection):
                    if not self.is_waiting:
                        _log.info("standing_by", follower=self._follower)
                    self.is_waiting = True
                    stop.wait(limits.STREAM_STAND_BY_POLL_S)
        finally:
            self.is_waiting = False

    def _is_followed(self, connection: psycopg.Connection[Any]) -> bool:
        return connection.execute(SQL["positions_held"].encode(), self._named).fetchone() == (True,)
