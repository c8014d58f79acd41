"""The owner's connection: one per process and thread, with the session settings that its batch statements need."""

from __future__ import annotations

from typing import Any, Final

import psycopg

from sinks import limits
from sinks.postgres import arrays
from sinks.postgres.session import INDEXED, Session

OwnerConnection = psycopg.Connection[tuple[Any, ...]]

_SESSION: Final = (
    f"{INDEXED} -c plan_cache_mode=force_generic_plan -c synchronous_commit=on -c client_min_messages=warning "
    f"-c statement_timeout={limits.OWNER_STATEMENT_TIMEOUT_MS} "
    # A frozen owner keeps its row locks until this ends its session, wherever in the protocol it stopped (Postgres 17).
    f"-c transaction_timeout={limits.OWNER_TRANSACTION_TIMEOUT_MS}"
)


def connect(dsn: str, name: str) -> OwnerConnection:
    """An autocommit connection whose every statement is prepared at once. Raises psycopg.OperationalError."""
    connection = Session.connect(
        dsn,
        autocommit=True,
        application_name=name,
        options=_SESSION,
        connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S,
        keepalives_idle=limits.POSTGRES_KEEPALIVE_S,
        keepalives_interval=limits.POSTGRES_KEEPALIVE_S,
        keepalives_count=3,
    )
    connection.prepare_threshold = 0
    arrays.register(connection)
    return connection
