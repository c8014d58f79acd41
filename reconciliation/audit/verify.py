"""Recomputes the hash chain of the audit log outside of the database that keeps it, and names the first broken row.

A changed, missing, added or moved row breaks the chain; rows cut off at the end are missing before the head. Who can
rewrite chain and head together is found by a head that was noted elsewhere before: pass it as ``noted``.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from reconciliation import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    import psycopg

_SQL: Final = queries("reconciliation.audit", "audit.sql")
GENESIS: Final = bytes(32)


class Verdict(Struct, frozen=True, kw_only=True):
    """Whether the log is whole: how many rows follow from one another, and why the next one does not."""

    rows: int
    head: str
    broken_seq: int | None = None
    reason: str | None = None


def row_hash(prev_hash: bytes, seq: int, at_us: int, *texts: str) -> bytes:
    """The hash of a row, as the database's function audit_hash makes it."""
    fields = (str(seq), str(at_us), *texts)
    framed = b"".join(b"%d:%s," % (len(raw), raw) for raw in (text.encode() for text in fields))
    return hashlib.sha256(prev_hash + framed).digest()


def verify(connection: psycopg.Connection, noted: tuple[int, str] | None = None) -> Verdict:
    """Follows the chain from its beginning in one consistent view, a bounded number of rows in memory."""
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        head_seq, head_hash = connection.execute(_SQL["head"].encode()).fetchone() or (0, GENESIS)
        count, previous = 0, GENESIS
        with connection.cursor("audit_chain") as cursor:
            cursor.itersize = limits.AUDIT_FETCH_ROWS
            cursor.execute(_SQL["chain"].encode())
            for row in cursor:
                reason = _why_broken(row, count + 1, previous) or _why_not_noted(row, noted)
                if reason is not None:
                    return Verdict(rows=count, head=previous.hex(), broken_seq=row[0], reason=reason)
                count, previous = row[0], bytes(row[-1])
    if (count, previous) != (head_seq, bytes(head_hash)):
        missing = f"the log ends before its head, which is row {head_seq}"
        return Verdict(rows=count, head=previous.hex(), broken_seq=count + 1, reason=missing)
    if noted is not None and noted[0] > count:
        return Verdict(rows=count, head=previous.hex(), broken_seq=count + 1, reason="the noted row is missing")
    return Verdict(rows=count, head=previous.hex())


def _why_broken(row: tuple[Any, ...], expected_seq: int, previous: bytes) -> str | None:
    seq, at_us, *texts, prev_hash, hash_ = row
    if seq != expected_seq:
        return f"row {expected_seq} is missing"
    if bytes(prev_hash) != previous:
        return "it does not follow the row before"
    if row_hash(previous, seq, at_us, *texts) != bytes(hash_):
        return "it is not what it was"
    return None


def _why_not_noted(row: tuple[Any, ...], noted: tuple[int, str] | None) -> str | None:
    is_other = noted is not None and row[0] == noted[0] and bytes(row[-1]).hex() != noted[1]
    return "it is not the row that was noted" if is_other else None
