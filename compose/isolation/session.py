"""The sessions of the isolation monitor in Postgres."""

from __future__ import annotations

from typing import Any

import psycopg

from sinks import limits
from sinks.postgres.session import NOT_HELD, Session


def connect(dsn: str, *, autocommit: bool = False) -> psycopg.Connection[tuple[Any, ...]]:
    """One that keeps nothing from others where the monitor stands still in it. Raises psycopg.OperationalError."""
    return Session.connect(
        dsn, autocommit=autocommit, connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S, options=NOT_HELD
    )
