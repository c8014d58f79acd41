"""Loops that work without a person: a connection for one round, and a pause that grows while rounds fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from sinks import limits

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable


def connected(dsn: str, name: str, statement_timeout_ms: int) -> psycopg.Connection:
    """An autocommit connection, whose commits are durable when they are answered. Raises as psycopg."""
    return psycopg.connect(
        dsn,
        autocommit=True,
        application_name=name,
        options=f"-c synchronous_commit=on -c statement_timeout={statement_timeout_ms}",
        connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S,
    )


def repeat(
    stop: threading.Event,
    one: Callable[[], float | None],
    failed: Callable[[psycopg.Error, str], None],
    *,
    first_s: float,
    most_s: float,
) -> None:
    """Does one round after another until ``stop``; absent servers are waited out.

    ``one`` says in how many seconds the next is due. After one that says None, or fails, the next comes after
    ``first_s``, then after twice as long each time, up to ``most_s``. ``failed`` hears of what Postgres refused, with
    the first line of its reason.
    """
    pause_s, retry_s = 0.0, 0.0
    while not stop.wait(pause_s):
        due_s = None
        try:
            due_s = one()
        except psycopg.Error as error:
            failed(error, str(error).partition("\n")[0])
        retry_s = 0.0 if due_s is not None else longer(retry_s, first_s, most_s)
        pause_s = retry_s if due_s is None else due_s


def longer(pause_s: float, first_s: float, most_s: float) -> float:
    """The pause after this one: twice as long, within its bounds."""
    return min(max(first_s, 2 * pause_s), most_s)
