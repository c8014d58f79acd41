"""Contents that an operator at the shell has refused, and scans that are tried again: durable and audited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from reconciliation import limits
from schemas.operators import decision_note
from schemas.social.media_operations import content_of
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    import psycopg

_SQL: Final = queries("reconciliation.social", "media.sql")


def block(connection: psycopg.Connection, sha256: str, reason: str, person: str) -> str:
    """'blocked' or 'already_blocked'. Raises InvalidCommand."""
    return _word(connection, "block", content_of(sha256), reason, person)


def lift(connection: psycopg.Connection, sha256: str, reason: str, person: str) -> str:
    """'lifted' or 'not_found'. Raises InvalidCommand."""
    return _word(connection, "lift", content_of(sha256), reason, person)


def retry(connection: psycopg.Connection, media_id: str, reason: str, person: str) -> str:
    """'retried', 'not_waiting' or 'not_found'. Raises InvalidCommand."""
    return _word(connection, "retry", media_id, reason, person)


def blocked(connection: psycopg.Connection) -> list[dict[str, Any]]:
    """What is refused now, the last first, bounded."""
    cursor = connection.execute(_SQL["blocked"].encode(), {"limit": limits.MEDIA_BLOCKED_SHOWN_MAX})
    names = [column.name for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _word(connection: psycopg.Connection, query: str, about: str, reason: str, person: str) -> str:
    note = decision_note.note_of(reason)
    row = connection.execute(_SQL[query].encode(), {"person": person, "about": about, "note": note}).fetchone()
    return str(row[0]) if row else ""
