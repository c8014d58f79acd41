"""Who follows a stream of records says so now and then, for others that stand by (``stand_by.py``)."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg

from schemas import errors
from sinks import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Callable

SQL: Final = queries("sinks.streams", "positions.sql")
TAKEN: Final = "another process follows this stream now"
Read = TypeVar("Read")


class HeldPositions:
    """The positions of one follower of one topic, claimed together: one of them speaks for all."""

    def __init__(self, follower: str, topic: str) -> None:
        self._named = {"follower": follower, "topic": topic}
        self._speaks: dict[str, int] | None = None
        self._said_at = -math.inf

    def hold(self, connection: psycopg.Connection[Any]) -> None:
        """Said at every turn, stored now and then. Raises errors.Fenced if another process has taken the positions."""
        now = time.monotonic()
        if now - self._said_at < limits.STREAM_LEASE_S / 4:
            return
        if connection.execute(SQL["positions_hold"].encode(), self._named | (self._speaks or {})).rowcount == 0:
            raise errors.Fenced(TAKEN)
        self._said_at = now

    def held(self, connection: psycopg.Connection[Any], read: Callable[[], Read]) -> Callable[[], Read]:
        """``read``, by who says at every turn that it follows."""

        def reads() -> Read:
            self.hold(connection)
            return read()

        return reads

    def release(self, connection: psycopg.Connection[Any]) -> None:
        """At the end: whoever stands by may take the place at once. Of a lost connection it waits."""
        with suppress(psycopg.OperationalError, psycopg.InterfaceError):
            if self._speaks is not None:
                connection.execute(SQL["positions_release"].encode(), self._named | self._speaks)

    def _claimed(self, connection: psycopg.Connection[Any], partition: int, epoch: int) -> None:
        """All of them are ours, under this epoch of the one that speaks."""
        self._speaks, self._said_at = {"partition": partition, "epoch": epoch}, -math.inf
        self.hold(connection)
