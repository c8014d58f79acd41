"""Recomputes the chain of a tenant's audit log outside of the database that keeps it, and names the first broken row.

A changed, missing, added or moved row breaks it; rows cut off at the end are missing before the head. Who can rewrite
chain and head together is found by a head that was noted elsewhere before: pass it as ``noted``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, structs

from reconciliation import limits
from reconciliation.audit.verify import GENESIS, row_hash
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from psycopg import Connection

SQL: Final = queries("reconciliation.tenancy", "audit_chain.sql")
_CHANGED: Final = "it is not what it was, or does not follow from the link before"


class Chain(Struct, frozen=True, kw_only=True):
    """How many links follow from one another, the hash of the last of them, and why the next one does not."""

    links: int
    rows: int
    head: str
    broken_seq: int | None = None
    reason: str | None = None


def verify(connection: Connection[Any], tenant_id: str, noted: tuple[int, str] | None = None) -> Chain:
    """Follows the chain from its beginning in one consistent view, a bounded number of links in memory."""
    named = {"tenant_id": tenant_id}
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        head = connection.execute(SQL["head"].encode(), named).fetchone() or (0, GENESIS, 0)
        links, rows, previous = 0, 0, GENESIS
        with connection.cursor("tenant_audit_chain") as cursor:
            cursor.itersize = limits.AUDIT_FETCH_ROWS
            cursor.execute(SQL["links"].encode(), named)
            for link, seq, at_us, fields, hash_ in cursor:
                broken, reason = _broken(link, seq, links, rows)
                if reason is None and row_hash(previous, link, at_us, *fields) != bytes(hash_):
                    broken, reason = seq, _CHANGED
                if reason is None and noted is not None and noted[0] == link and noted[1] != bytes(hash_).hex():
                    broken, reason = seq, "it is not the link that was noted"
                if reason is not None:
                    return Chain(links=links, rows=rows, head=previous.hex(), broken_seq=broken, reason=reason)
                links, rows, previous = link, max(rows, seq), bytes(hash_)
    found = Chain(links=links, rows=rows, head=previous.hex())
    if (links, previous) != (head[0], bytes(head[1])):
        missing = f"the log ends before its head, which is link {head[0]}"
        return structs.replace(found, broken_seq=min(rows + 1, max(head[2], 1)), reason=missing)
    if noted is not None and noted[0] > links:
        return structs.replace(found, broken_seq=rows + 1, reason="the noted link is missing")
    return found


def _broken(link: int, seq: int, links: int, rows: int) -> tuple[int, str | None]:
    """Which row is broken where this link follows so many links of so many rows, if one is, and why."""
    if seq > rows + 1:
        return rows + 1, "it is missing"
    return seq, None if link == links + 1 else f"link {links + 1} is missing before this"
