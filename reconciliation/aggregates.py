"""The version of an object that is durable now, of whichever service the object is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciliation.services import RECONCILED
from schemas.errors import NotFound

if TYPE_CHECKING:
    import psycopg


def aggregate_version(connection: psycopg.Connection, aggregate_key: str) -> int:
    """That of one aggregate. Raises errors.NotFound."""
    for service in RECONCILED.values():
        row = connection.execute(service.aggregate_version.encode(), {"aggregate_key": aggregate_key}).fetchone()
        if row is not None:
            return int(row[0])
    raise NotFound(f"no aggregate {aggregate_key!r}")
