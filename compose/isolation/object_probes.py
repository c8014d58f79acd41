"""Probes with ids that are real: one object of each kind that tenants have, asked for by one whose it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import psycopg

from compose.isolation import session
from compose.isolation.route_probes import compared
from schemas import errors
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compose.isolation.api_connection import Answer
    from compose.isolation.canaries import Canary, Doors
    from compose.isolation.found import Found

SQL: Final = queries("sinks.postgres.queries.tenancy", "others.sql")
_TENANT: Final = "/v1/tenants/{tenant}"
#: where each kind is read; an operation is the other canary's
ROUTES: Final = {
    "invoice": ("/v1/invoices/{id}", "/v1/invoices/{id}/document", "/v1/invoices/{id}/payment"),
    "billing_run": (f"{_TENANT}/billing_runs/{{id}}",),
    "export": (f"{_TENANT}/exports/{{id}}", f"{_TENANT}/exports/{{id}}/content"),
    "certificate": (f"{_TENANT}/certificates/{{id}}",),
    "migration": (f"{_TENANT}/migrations/{{id}}",),
    "grant": (f"{_TENANT}/support_grants/{{id}}",),
    "operation": ("/v1/operations/{id}",),
}
_Row = tuple[str, str, str]  # kind, tenant, object


def object_probes(doors: Doors, dsn: str, asks: Canary, other: Canary) -> Iterator[Found]:
    """All of them; which objects, is remembered for a minute. ``dsn``: as the ingress reads. Raises Unavailable."""
    named = {"asks": asks.tenant_id, "other": other.tenant_id}
    anybodys = doors.remembered(("objects", asks.tenant_id), lambda: objects(dsn, "objects_of_others", named))
    there = dict.fromkeys([*own_objects(doors, dsn, other), *anybodys])
    for kind, tenant_id, object_id in there:
        for route, below in _asked(kind, tenant_id, asks):

            def ask(id_: str, route: str = route, below: str = below) -> Answer:
                return doors.ask(asks.tenant_id, "GET", route.format(tenant=below, id=id_))

            place = route.replace("{tenant}", "{own}") if below == asks.tenant_id else route
            found = compared(doors, asks, place, object_id, ask, other)
            yield found._replace(probe=f"object {found.probe}")


def _asked(kind: str, tenant_id: str, asks: Canary) -> Iterator[tuple[str, str]]:
    """Where one is asked for: below whose it is, and below who asks, as if it were its own."""
    for route in ROUTES[kind]:
        yield route, tenant_id
        if _TENANT in route:
            yield route, asks.tenant_id


def own_objects(doors: Doors, dsn: str, canary: Canary) -> list[_Row]:
    """A canary's own, which ones is remembered for a minute. Raises Unavailable."""
    named = {"asks": canary.tenant_id}
    return doors.remembered(("own objects", canary.tenant_id), lambda: objects(dsn, "objects_of_own", named))


def objects(dsn: str, statement: str, named: dict[str, Any]) -> list[_Row]:
    """What a statement finds, as the ingress reads. Raises Unavailable."""
    try:
        with session.connect(dsn) as connection:
            return connection.execute(SQL[statement].encode(), named).fetchall()
    except psycopg.OperationalError as error:
        raise errors.Unavailable("Postgres does not answer") from error
