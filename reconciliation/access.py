"""Access that an operator at the shell denies, and lifts; every door follows within seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from schemas import limits
from schemas.operators import access_denial
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    import psycopg

_SQL: Final = queries("reconciliation", "access.sql")


def deny(connection: psycopg.Connection, kind: str, name: str, reason: str, actor: str, *, so_far: bool) -> str:
    """'denied', 'known' or 'too_many', durable and audited. Raises InvalidCommand."""
    access_denial.require(kind, name, reason, so_far=so_far)
    said = {"kind": kind, "name": name, "so_far": so_far, "reason": reason, "actor": actor}
    bounds = {"rows_max": limits.ACCESS_DENIED_MAX, "token_life_s": access_denial.TOKEN_LIFE_S}
    return _word(connection, "deny", said | bounds)


def lift(connection: psycopg.Connection, kind: str, name: str, reason: str, actor: str) -> str:
    """'lifted' or 'not_found', durable and audited. Raises InvalidCommand."""
    access_denial.require(kind, name, reason)
    return _word(connection, "lift", {"kind": kind, "name": name, "reason": reason, "actor": actor})


def listed(connection: psycopg.Connection) -> list[dict[str, Any]]:
    """Who is denied now, newest first."""
    cursor = connection.execute(_SQL["listed"].encode(), {"limit": limits.ACCESS_DENIED_MAX})
    names = [column.name for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _word(connection: psycopg.Connection, query: str, parameters: dict[str, Any]) -> str:
    row = connection.execute(_SQL[query].encode(), parameters).fetchone()
    return str(row[0]) if row else ""
