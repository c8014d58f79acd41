"""What tests read of Postgres, over and over while they wait: one session of each database, and not one of each question.

A session costs as much as a hundred questions, of the client and of the server.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import psycopg

if TYPE_CHECKING:
    from psycopg.abc import Query

_sessions: Final[dict[str, psycopg.Connection]] = {}


def rows(dsn: str, query: Query, *parameters: object) -> list[tuple[Any, ...]]:
    """What a statement returns, if anything; it commits by itself. A percent sign is written twice in it."""
    if threading.current_thread() is threading.main_thread():
        return _rows(_session(dsn), query, parameters)
    with _connected(dsn) as session:  # of one thread alone: nobody would close what it leaves
        return _rows(session, query, parameters)


def end() -> None:
    """Closes all sessions: the databases that they read may go."""
    while _sessions:
        _sessions.popitem()[1].close()


def _rows(session: psycopg.Connection, query: Query, parameters: tuple[object, ...]) -> list[tuple[Any, ...]]:
    cursor = session.execute(query, parameters)
    return cursor.fetchall() if cursor.description else []


def _session(dsn: str) -> psycopg.Connection:
    """One that answers: its server may have been killed since it was asked last."""
    known = _sessions.get(dsn)
    if known is not None:
        try:
            known.execute("select 1")
        except psycopg.OperationalError:
            known.close()
        else:
            return known
    _sessions[dsn] = _connected(dsn)
    return _sessions[dsn]


def _connected(dsn: str) -> psycopg.Connection:
    # not prepared: tables may change under it
    return psycopg.connect(dsn, autocommit=True, prepare_threshold=None)
