"""Probes of stores that are another tenant's own: a schema or a database. One of them each round, by their ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql

from compose.isolation import session
from compose.isolation.found import Found
from dataflows.tenancy.domain.tenant import POOLED_SCHEMA
from schemas import errors
from sinks.postgres.sql_files import queries
from sinks.tenancy import databases

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SQL: Final = queries("sinks.postgres.queries.tenancy", "others.sql")
#: a refusal is caught where it is raised, as in the pool; a store that was dropped meanwhile shows nothing
_SEEN: Final = """
do $$
begin
    perform 1 from {store}.resource where tenant_id <> current_setting('app.asks') limit 1;
    perform set_config('app.taken', case when found then 'yes' else 'no' end, true);
exception when insufficient_privilege or object_not_in_prerequisite_state or undefined_table or invalid_schema_name
          or sqlstate 'TN001' then
    perform set_config('app.taken', 'no', true);
end $$"""
_CONTEXT: Final = b"select set_config('app.ctx', %s, true), set_config('app.asks', %s, true)"
_TAKEN: Final = b"select current_setting('app.taken') = 'yes'"


class PlacementProbes:
    """Those of one monitor: it knows where the round before was."""

    def __init__(self) -> None:
        self._after = ""

    def ask(
        self, connection: psycopg.Connection[Any], dsn: str, asks: str, contexts: Mapping[str, str]
    ) -> Iterator[Found]:
        """With each of these contexts, by name, no row of the store is seen; nothing where there is no such store.

        ``connection`` and ``dsn``: as the ingress reads, of the control database. Raises psycopg.OperationalError and
        Unavailable.
        """
        with connection.transaction():
            place = self._next(connection, asks)
            if place is None and self._after:  # that was the last one
                self._after = ""
                place = self._next(connection, asks)
        if place is None:
            return
        placement_id, mode, schema = place
        if mode != "dedicated":
            yield from _probed(connection, mode, schema, asks, contexts)
            return
        try:
            there = session.connect(databases.dsn_of(dsn, placement_id))
        except psycopg.OperationalError as error:
            raise errors.Unavailable(f"the database of placement {placement_id} does not answer") from error
        with there:
            yield from _probed(there, mode, POOLED_SCHEMA, asks, contexts)

    def _next(self, connection: psycopg.Connection[Any], asks: str) -> tuple[str, str, str] | None:
        row = connection.execute(SQL["placement_after"].encode(), {"after": self._after, "asks": asks}).fetchone()
        if row is not None:
            self._after = row[0]
        return row


def _probed(
    connection: psycopg.Connection[Any], mode: str, schema: str, asks: str, contexts: Mapping[str, str]
) -> Iterator[Found]:
    query = sql.SQL(_SEEN).format(store=sql.Identifier(schema))
    for name, context in contexts.items():
        with connection.transaction():
            connection.execute(_CONTEXT, (context, asks))
            connection.execute(query)
            (is_taken,) = connection.execute(_TAKEN).fetchone() or (True,)
        evidence = f"a row of {schema} is seen" if is_taken else None
        yield Found(f"{mode} store, {name}", evidence, is_leak=bool(is_taken))
