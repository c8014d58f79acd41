"""Usage is kept for a bounded time (``limits.USAGE_KEPT_S``): what is older is removed, a few rows at a time.

The database's own function decides what may go, and nobody who counts can delete anything else: see ``usage_remove``.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import psycopg
import structlog

from schemas.tenancy import limits
from schemas.tenancy.service import SERVICE
from schemas.tenancy.usage_topic import counted_partitions
from sinks.postgres import owner_connection
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from sinks.postgres.owner_connection import OwnerConnection

SQL: Final = queries("sinks.postgres.queries.tenancy", "metering.sql")
_log: Final = structlog.get_logger(__name__)


class Keeping:
    """One loop; several at once remove nothing twice."""

    def __init__(self, dsn: str, name: str) -> None:
        self._dsn = dsn
        self._name = name
        self._stop = threading.Event()

    def stop(self) -> None:
        """Ends ``run`` soon."""
        self._stop.set()

    def run(self) -> None:
        """Removes what is too old now and then, until ``stop``; a Postgres that is away is asked the next time."""
        while not self._stop.wait(limits.USAGE_KEEPING_INTERVAL_S):
            try:
                with owner_connection.connect(self._dsn, self._name) as connection:
                    while not self._stop.is_set() and remove(connection):
                        pass
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                _log.warning("usage_keeping_begins_again", error=str(error).partition("\n")[0])


def remove(connection: OwnerConnection) -> int:
    """Removes some of what is too old from every partition; and refused usage; how many. Each is a transaction."""
    removed = 0
    for partition in range(counted_partitions(SERVICE.partitions)):
        asked = (partition, limits.USAGE_REMOVED_AT_ONCE)
        (row,) = connection.execute(SQL["usage_remove"].encode(), asked).fetchall()
        removed += row[0]
    (row,) = connection.execute(SQL["refused_remove"].encode(), (limits.USAGE_REMOVED_AT_ONCE,)).fetchall()
    return removed + int(row[0])
