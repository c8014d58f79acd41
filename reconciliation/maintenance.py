"""New work of merchants, switched off and on from the shell; every ingress follows within about a second."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from schemas.operators import maintenance
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from datetime import datetime

    import psycopg

_SQL: Final = queries("reconciliation", "maintenance.sql")


def switch(connection: psycopg.Connection, author: str, *, on: bool, reason: str) -> int:
    """The version in force now, durable and audited. Raises InvalidCommand for a reason that is none."""
    body = maintenance.canonical({"on": on, "reason": reason})
    ((version,),) = connection.execute(_SQL["switch"].encode(), {"body": body, "author": author})
    return int(version)


def shown(connection: psycopg.Connection) -> dict[str, Any]:
    """Whether it is on, why, by whom and since when; version 0 before anybody switched."""
    row: tuple[int, str, str, datetime] | None = connection.execute(_SQL["active"].encode()).fetchone()
    if row is None:
        return {"on": False, "reason": None, "author": None, "since": None, "version": 0}
    version, body, author, since = row
    found = maintenance.read(body)
    return {"on": found.on, "reason": found.reason, "author": author, "since": since.isoformat(), "version": version}
