"""What loops share that work without a person: a connection for one round, and a pause that grows while rounds fail."""

from __future__ import annotations

import psycopg

from sinks import limits


def connected(dsn: str, name: str, statement_timeout_ms: int) -> psycopg.Connection:
    """An autocommit connection, whose commits are durable when they are answered. Raises as psycopg."""
    return psycopg.connect(
        dsn,
        autocommit=True,
        application_name=name,
        options=f"-c synchronous_commit=on -c statement_timeout={statement_timeout_ms}",
        connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S,
    )


def longer(pause_s: float, first_s: float, most_s: float) -> float:
    """The pause after this one: twice as long, within its bounds."""
    return min(max(first_s, 2 * pause_s), most_s)
