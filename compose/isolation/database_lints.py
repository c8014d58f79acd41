"""The lints of the catalog in databases that are a tenant's own: some of them each round, by their ids.

What is amiss in one stands, with its tenant, until it is looked at again. Nothing is called right before each was
looked at once: a monitor that begins anew does not forget what the one before found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import psycopg

from compose import limits
from compose.isolation import session
from schemas import errors
from sinks.postgres.sql_files import queries
from sinks.tenancy import databases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import Connection

LINT: Final = "dedicated_databases"
SQL: Final = queries("sinks.postgres.queries.tenancy", "databases.sql")
_CATALOG: Final = queries("sinks.postgres.queries.tenancy", "isolation.sql")
#: roles belong to the server: the control database's lint looks at them
_LINTS: Final = tuple(
    name for name in _CATALOG if name.startswith("lint_") and name not in ("lint_done", "lint_roles_are_bound")
)


class DatabaseLints:
    """Those of one monitor: it knows where the round before was, and what is amiss where."""

    def __init__(self) -> None:
        self._after = ""
        self._amiss: dict[str, list[str]] = {}
        self._was_round = False  # each was looked at

    def look(self, dsn: str) -> list[str] | None:
        """What is amiss in all of them; None while too few were looked at to say that nothing is.

        ``dsn``: as the ingress reads, of the control database. Raises Unavailable when a database does not answer.
        """
        asked = {"after": self._after, "limit": limits.ISOLATION_DATABASES_A_ROUND}
        with session.connect(dsn) as connection:
            places = connection.execute(SQL["databases_after"].encode(), asked).fetchall()
            still = {row[0] for row in connection.execute(SQL["databases_all"].encode())}
        self._amiss = {place: found for place, found in self._amiss.items() if place in still}
        for placement_id, tenant_id in places:
            found = _looked_at(databases.dsn_of(dsn, placement_id), placement_id)
            self._amiss[placement_id] = [f"{tenant_id} ({placement_id}): {what}" for what in found]
            self._after = placement_id
        if len(places) < limits.ISOLATION_DATABASES_A_ROUND:
            self._after, self._was_round = "", True
        amiss = [what for _, found in sorted(self._amiss.items()) for what in found]
        return amiss if amiss or self._was_round else None


def _looked_at(dsn: str, placement_id: str) -> list[str]:
    try:
        with session.connect(dsn) as connection:
            return [f"{lint.removeprefix('lint_')} {name}" for lint in _LINTS for name in _named(connection, lint)]
    except psycopg.OperationalError as error:
        raise errors.Unavailable(f"the database of placement {placement_id} does not answer") from error


def _named(connection: Connection[Any], lint: str) -> Sequence[str]:
    return [str(name) for (name,) in connection.execute(_CATALOG[lint].encode(), {})]
