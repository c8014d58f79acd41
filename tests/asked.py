"""What tests read of Postgres, over and over while they wait: one session of each database, and not one of each question.

A session costs as much as a hundred questions, of the client and of the server.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.rows import dict_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg.abc import Query

_sessions: Final[dict[str, psycopg.Connection]] = {}


def rows(dsn: str, query: Query, *parameters: object) -> list[tuple[Any, ...]]:
    """What a statement returns, if anything; it commits by itself. A percent sign is written twice in it."""
    with _session(dsn) as session:
        cursor = session.execute(query, parameters)
        return cursor.fetchall() if cursor.description else []


def record(dsn: str, query: Query, *parameters: object) -> dict[str, Any] | None:
    """As ``rows``: the first row, by the names of its columns."""
    with _session(dsn) as session:
        return session.cursor(row_factory=dict_row).execute(query, parameters).fetchone()


def end() -> None:
    """Closes all sessions: the databases that they read may go."""
    while _sessions:
        _sessions.popitem()[1].close()


@contextmanager
def _session(dsn: str) -> Iterator[psycopg.Connection]:
    """One that answers: its server may have been killed since it was asked last."""
    if threading.current_thread() is not threading.main_thread():
        with _connected(dsn) as session:  # of one thread alone: nobody would close what it leaves
            yield session
        return
    known = _sessions.get(dsn)
    if known is not None:
        try:
            known.execute("select 1")
        except psycopg.OperationalError:
            known.close()
            known = None
    _sessions[dsn] = known or _connected(dsn)
    yield _sessions[dsn]


def _connected(dsn: str) -> psycopg.Connection:
    # not prepared: tables may change under it
    return psycopg.connect(dsn, autocommit=True, prepare_threshold=None)
