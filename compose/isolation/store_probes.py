"""Probes of the stores: with the context of one tenant rows of no other, without a good one none at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, LiteralString

import psycopg
from clickhouse_connect.driver.exceptions import ClickHouseError
from psycopg import sql

from compose.isolation import session
from compose.isolation.found import Found
from schemas import errors
from sinks.clickhouse.connection import ClickHouseConnection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clickhouse_connect.driver.client import Client

    from compose.isolation.canaries import Canary
    from compose.isolation.placement_probes import PlacementProbes
    from sinks.tenancy.contexts import Contexts

POOL: Final = "tenancy_pool"  # which every home has
_FOREIGN: Final = "select count(*) from {}.resource where tenant_id <> %s"
_OWN: Final = "select count(*) from {}.resource where tenant_id = %s"
_CONTEXT: Final = b"select set_config('app.ctx', %s, true)"
#: a refusal is caught where it is raised: each would be an error in the server's log, three for every round
_REFUSED: Final = """
do $$
begin
    perform count(*) from {}.resource where tenant_id <> current_setting('app.asks');
    perform set_config('app.taken', 'yes', true);
exception when insufficient_privilege or object_not_in_prerequisite_state or sqlstate 'TN001' then
    perform set_config('app.taken', 'no', true);
end $$"""
_ASKS: Final = b"select set_config('app.asks', %s, true)"
_TAKEN: Final = b"select current_setting('app.taken') = 'yes'"
_REFUSALS: Final = (psycopg.errors.InsufficientPrivilege, psycopg.errors.ObjectNotInPrerequisiteState)
_STALE: Final = "TN001"  # the context is of an older generation or policy: the canary was moved, or changed
_USAGE: Final = (
    "select countIf(subject = {own:String}), countIf(subject = {others:String}) from usage_events"
    " where tenant_id = {tenant:String}"
)


def store_probes(
    dsn: str,
    contexts: Contexts,
    asks: Canary,
    other: Canary,
    now: tuple[int, int],
    placements: PlacementProbes,
    store: str = POOL,
) -> Iterator[Found]:
    """As the role that the ingress reads with. ``now``: the canary's generation and policy.

    ``store``: the schema that it is in; a drain moves it like any tenant. Raises Unavailable.
    """
    generation, policy_version = now
    good = contexts.of(asks.tenant_id, generation, "r", policy_version=policy_version)
    wrong = {
        "no context": "",
        "forged context": good.replace(asks.tenant_id, other.tenant_id),
        "expired context": contexts.of(asks.tenant_id, generation, "r", now=0),
        "context of an older generation": contexts.of(asks.tenant_id, generation - 1, "r"),
    }
    if policy_version > 1:  # the first one was never raised: no gate knows of it
        wrong["context of an older policy"] = contexts.of(
            asks.tenant_id, generation, "r", policy_version=policy_version - 1
        )
    try:
        with session.connect(dsn) as connection:
            seen = _counted(connection, good, _of(_FOREIGN, store), asks.tenant_id)
            own = _counted(connection, good, _of(_OWN, store), asks.tenant_id)
            if seen is None or own is None:
                raise errors.Unavailable("the canary has another generation or policy by now")
            evidence = f"{seen} rows of other tenants are seen" if seen else None
            yield Found("rows of others", evidence, is_leak=bool(seen))
            yield Found("own rows", None if own else "a tenant's own rows are not seen: the probe proves nothing")
            for name, context in wrong.items():
                is_taken = _is_taken(connection, context, asks.tenant_id, store)
                yield Found(name, "it was taken" if is_taken else None, is_leak=is_taken)
            yield from placements.ask(connection, dsn, asks.tenant_id, {"context of another tenant": good} | wrong)
    except psycopg.OperationalError as error:
        raise errors.Unavailable("Postgres does not answer") from error


def _counted(connection: psycopg.Connection[Any], context: str, query: sql.Composed, tenant_id: str) -> int | None:
    """How many rows it sees; None where the database refuses."""
    try:
        with connection.transaction():
            connection.execute(_CONTEXT, (context,))
            row = connection.execute(query, (tenant_id,)).fetchone()
    except psycopg.DatabaseError as error:
        if isinstance(error, _REFUSALS) or error.sqlstate == _STALE:
            return None
        raise
    return int(row[0]) if row else 0


def _of(query: LiteralString, store: str) -> sql.Composed:
    """The statement about this schema, whatever its name is: the API told it."""
    return sql.SQL(query).format(sql.Identifier(store))


def _is_taken(connection: psycopg.Connection[Any], context: str, tenant_id: str, store: str) -> bool:
    """Whether the database reads rows under this context; it never should."""
    with connection.transaction():
        connection.execute(_CONTEXT, (context,))
        connection.execute(_ASKS, (tenant_id,))
        connection.execute(_of(_REFUSED, store))
        (is_taken,) = connection.execute(_TAKEN).fetchone() or (True,)
    return bool(is_taken)


class AnalyticsProbe:
    """Usage of one tenant holds none of another's. One client for all rounds: a new one asks a server about itself."""

    def __init__(self, url: str) -> None:
        self._connection = ClickHouseConnection(url=url)
        self._client: Client | None = None

    def ask(self, asks: Canary, other: Canary) -> Iterator[Found]:
        """Nothing while its own usage is not there yet: that would prove nothing.

        Raises Unavailable; then the next one has a new client.
        """
        self._client = self._client or self._connection.client()
        try:
            named = {"tenant": asks.tenant_id, "own": asks.subject, "others": other.subject}
            own, seen = map(int, self._client.query(_USAGE, parameters=named).result_rows[0])
        except (ClickHouseError, OSError) as error:
            self.close()
            raise errors.Unavailable("ClickHouse does not answer") from error
        if own or seen:
            evidence = "another tenant's usage is seen" if seen else None
            yield Found("usage in ClickHouse", evidence, is_leak=bool(seen))

    def close(self) -> None:
        """Disconnects."""
        client, self._client = self._client, None
        if client is not None:
            client.close()
