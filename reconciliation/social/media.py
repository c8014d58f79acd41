"""Contents that an operator at the shell has refused, and scans that are tried again: durable and audited."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from reconciliation import limits
from schemas.errors import InvalidCommand
from schemas.operators import decision_note
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    import psycopg

_SQL: Final = queries("reconciliation.social", "media.sql")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def block(connection: psycopg.Connection, sha256: str, reason: str, person: str) -> str:
    """'blocked' or 'already_blocked'. Raises InvalidCommand."""
    return _word(connection, "block", _content(sha256), reason, person)


def lift(connection: psycopg.Connection, sha256: str, reason: str, person: str) -> str:
    """'lifted' or 'not_found'. Raises InvalidCommand."""
    return _word(connection, "lift", _content(sha256), reason, person)


def retry(connection: psycopg.Connection, media_id: str, reason: str, person: str) -> str:
    """'retried', 'not_waiting' or 'not_found'. Raises InvalidCommand."""
    return _word(connection, "retry", media_id, reason, person)


def blocked(connection: psycopg.Connection) -> list[dict[str, Any]]:
    """What is refused now, the last first, bounded."""
    cursor = connection.execute(_SQL["blocked"].encode(), {"limit": limits.MEDIA_BLOCKED_SHOWN_MAX})
    names = [column.name for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _content(sha256: str) -> str:
    found = sha256.strip().lower()
    if not _SHA256.fullmatch(found):
        raise InvalidCommand([{"field": "sha256", "reason": "must be the SHA-256 of a content, in hex"}])
    return found


def _word(connection: psycopg.Connection, query: str, about: str, reason: str, person: str) -> str:
    note = decision_note.read_decision(decision_note.REQUIRED, {"note": reason})["note"]
    row = connection.execute(_SQL[query].encode(), {"person": person, "about": about, "note": note}).fetchone()
    return str(row[0]) if row else ""
