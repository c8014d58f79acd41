"""The mover's lease on keys of tenants: kept beside its work, as one export may last longer than a lease."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from schemas.tenancy import limits
from sinks.postgres.periodic_task import PeriodicTask
from sinks.postgres.sql_files import queries
from sinks.tenancy.key_lease import KeyLease

if TYPE_CHECKING:
    from psycopg import Connection

SQL: Final = queries("dataflows.tenancy.mover", "mover.sql")


class Leasing:
    """One mover's, from when it has its work to itself until it ends."""

    def __init__(self, dsn: str, instance: str) -> None:
        self.lease = KeyLease(instance)
        self._keeper = PeriodicTask("tenancy-key-lease", dsn, self._keep, limits.KEY_LEASE_RENEWED_S)

    def start(self, connection: Connection[Any]) -> None:
        """There is a lease when this returns, which goes on by itself."""
        self._keep(connection)
        self._keeper.start()

    def stop(self, connection: Connection[Any]) -> None:
        """Nobody waits for this mover any more; where that cannot be said its lease ends by itself."""
        self._keeper.stop()
        leaving = self.lease.leaving()
        if not (connection.closed or connection.broken):
            connection.execute(SQL[leaving.statement].encode(), leaving.given)

    def _keep(self, connection: Connection[Any]) -> None:
        while True:
            asking = self.lease.asking()
            rows = connection.execute(SQL[asking.statement].encode(), asking.given).fetchall()
            if not self.lease.answered(asking, rows):
                return
