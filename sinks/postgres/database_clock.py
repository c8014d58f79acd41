"""The time of the database, to compare with times that others wrote: a process's own clock may be wrong."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import psycopg

_NOW: Final = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint"
_SECOND_US: Final = 1_000_000


def now_us(connection: psycopg.Connection[Any]) -> int:
    """Microseconds since the epoch. Raises psycopg.Error."""
    (found,) = connection.execute(_NOW).fetchone() or (0,)
    return int(found)


class Running:
    """The database's time, asked now and then and counted on from there by this process's monotonic clock.

    Never ahead of the database's: it is counted from when the answer was here. Asking raises psycopg.Error.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self.ask()

    def ask(self) -> None:
        """Begins anew from what the database says."""
        self._asked_us = now_us(self._connection)
        self._answered_at = time.monotonic()

    def now_us(self) -> int:
        """Microseconds since the epoch."""
        return self._asked_us + int((time.monotonic() - self._answered_at) * _SECOND_US)


def now_s(connection: psycopg.Connection[Any]) -> int:
    """Whole seconds since the epoch. Raises psycopg.Error."""
    return now_us(connection) // _SECOND_US
