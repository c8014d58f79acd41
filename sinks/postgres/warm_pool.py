"""A pool of connections that hands out the one that was given back last."""

from __future__ import annotations

from collections import deque
from typing import Any, TypeVar

import psycopg
import psycopg_pool

Connection = TypeVar("Connection", bound=psycopg.AsyncConnection[Any])


class WarmPool(psycopg_pool.AsyncConnectionPool[Connection]):
    """As the library's, which takes the one that rested longest, so that all it ever opened work by turns.

    A session has what it knows of tables, and its plans, in its own memory. Measured: the statement of a home took
    Postgres 0.9 ms by turns of one to four sessions, 1.2 ms of eight and 2.0 ms of sixteen.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._pool = _LastFirst()


class _LastFirst(deque[Connection]):
    """The library appends what is given back, and takes from the left."""

    def append(self, connection: Connection) -> None:
        self.appendleft(connection)
