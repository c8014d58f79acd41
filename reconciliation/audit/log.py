"""Appending to the audit log: with what was done in one transaction, or not at all."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from psycopg.rows import dict_row

from reconciliation import limits
from schemas.errors import PlatformError
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

_SQL: Final = queries("reconciliation.audit", "audit.sql")


def append(connection: psycopg.Connection, actor: str, action: str, name: str, outcome: str, **details: object) -> None:
    """One row at the end of the log, durable with the transaction that it is in."""
    values = {"actor": actor, "action": action, "object": name, "outcome": outcome}
    connection.execute(_SQL["append"].encode(), values | {"details": json.dumps(details, default=str)})


@contextmanager
def audited(connection: psycopg.Connection, actor: str, action: str, name: str, **details: object) -> Iterator[None]:
    """The block is one transaction that ends with its row in the log; what it refuses is in the log without it."""
    try:
        with connection.transaction():
            yield
            append(connection, actor, action, name, "done", **details)
    except PlatformError as error:
        append(connection, actor, action, name, "refused", **details, code=error.code)
        raise


@contextmanager
def announced(
    connection: psycopg.Connection, actor: str, action: str, name: str, **details: object
) -> Iterator[dict[str, object]]:
    """For work in another store or transaction: that it begins is durable before it, what became of it after it.

    What the block puts into the mapping stands in the last row. Killed in between, ``begun`` has no successor.
    """
    append(connection, actor, action, name, "begun", **details)
    found: dict[str, object] = {}
    outcome = "failed"
    try:
        yield found
        outcome = "done"
    except PlatformError as error:
        outcome, found["code"] = "refused", error.code
        raise
    finally:
        append(connection, actor, action, name, outcome, **details | found)


def entries(
    connection: psycopg.Connection, *, actor: str | None = None, name: str | None = None, limit: int
) -> list[dict[str, Any]]:
    """The newest rows, oldest of them first; of one actor or object when given."""
    values = {"actor": actor, "object": name, "limit": min(limit, limits.AUDIT_LISTED_MAX)}
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_SQL["page"].encode(), values).fetchall()
