"""Where a tenant's rows are, and what is done with them there, each time under the mover's context of the tenant."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct
from psycopg import sql

from dataflows.tenancy.domain.tenant import POOLED_SCHEMA, OfAStore
from schemas import errors
from schemas.tenancy import limits as tenancy_limits
from sinks import limits as sinks_limits
from sinks.postgres import arrays, database_clock
from sinks.postgres.arrays import Bigints, Blobs, Booleans, Texts
from sinks.postgres.session import NOT_HELD, Session
from sinks.postgres.sql_files import queries
from sinks.tenancy import contexts, databases, store_files
from sinks.tenancy.contexts import Contexts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import Connection

    from sinks.tenancy.secrets_file import TenancySecrets

SQL: Final = queries("dataflows.tenancy.mover", "mover.sql")
Row = tuple[str, int, bytes, bool]  # resource, version, sealed payload, deleted
_INVALID: Final = -2  # the connection limit of a database whose drop has begun


class Place(OfAStore, Struct, frozen=True, kw_only=True):
    """One placement, for one tenant at one generation."""

    tenant_id: str
    generation: int
    placement_id: str
    mode: str
    shard_or_database: str


def place_of(row: tuple[Any, ...]) -> Place:
    """From a row of the statements that read placements."""
    return Place(**dict(zip(Place.__struct_fields__, row, strict=True)))


class Digest(NamedTuple):
    """A page of rows: its last one, how many there are, and sums over what heads know of them and over all of them."""

    last_id: str | None
    rows: int
    heads: Decimal
    whole: Decimal


class Places:
    """The databases of one mover: the control database, and each dedicated one while it is needed."""

    def __init__(self, control: Connection[Any], dsn: str, secrets: TenancySecrets) -> None:
        arrays.register(control)
        self.control = control
        self._dsn = dsn
        self._secrets = secrets
        self._contexts = Contexts(secrets)
        self._dedicated: dict[str, Connection[Any]] = {}

    def serving(self, tenant_id: str) -> Place:
        """The placement that serves a tenant now. Raises NotFound."""
        row = self.control.execute(SQL["tenant_placement"].encode(), {"tenant_id": tenant_id}).fetchone()
        if row is None:
            raise errors.NotFound
        return place_of(row)

    def close(self) -> None:
        """Disconnects from dedicated databases."""
        for connection in self._dedicated.values():
            connection.close()
        self._dedicated.clear()

    def connection(self, place: Place) -> Connection[Any]:
        """To the database of a placement."""
        if place.mode != "dedicated":
            return self.control
        found = self._dedicated.get(place.placement_id)
        if found is None or found.closed or found.broken:
            if len(self._dedicated) >= tenancy_limits.DEDICATED_STORES_MAX:
                self.close()
            found = Session.connect(
                databases.dsn_of(self._dsn, place.placement_id),
                autocommit=True,
                connect_timeout=sinks_limits.POSTGRES_CONNECT_TIMEOUT_S,
                options=NOT_HELD,
            )
            arrays.register(found)
            try:
                store_files.ensure(found)  # it is new, or was away when the others were migrated
            except BaseException:
                found.close()
                raise
            self._dedicated[place.placement_id] = found
        return found

    def context(self, place: Place) -> str:
        """The mover's own context of a tenant: a fence does not stop it. It ends by the clock that it is judged by."""
        now_s = database_clock.now_s(self.connection(place))
        return self._contexts.of(place.tenant_id, place.generation, "move", now_s)

    def rows(self, place: Place, ids: Sequence[str]) -> dict[str, Row]:
        """Some rows of the tenant there."""
        query = "select * from tenancy.read_rows(%s, %s, %s, %s)"
        given = (self.context(place), place.store, place.tenant_id, list(ids))
        return {row[0]: _row(row) for row in self.connection(place).execute(query, given)}

    def rows_after(self, place: Place, after: str, at_most: int) -> list[Row]:
        """The next rows of the tenant there, in the order of ids."""
        query = "select * from tenancy.rows_after(%s, %s, %s, %s, %s)"
        given = (self.context(place), place.store, place.tenant_id, after, at_most)
        return [_row(row) for row in self.connection(place).execute(query, given)]

    def digest(self, place: Place, after: str, upto: str, at_most: int) -> Digest:
        """Some rows of the tenant there behind an id, up to another one if that is not "", as sums."""
        query = "select * from tenancy.digest_rows(%s, %s, %s, %s, %s, %s)"
        given = (self.context(place), place.store, place.tenant_id, after, upto, at_most)
        row = self.connection(place).execute(query, given).fetchone()
        return Digest(*(row or (None, 0, 0, 0)))

    def apply(self, place: Place, rows: Sequence[Row]) -> None:
        """Those rows are there afterwards, or newer ones."""
        self.apply_all(place, [(place, row) for row in rows])

    def apply_all(self, database: Place, rows: Sequence[tuple[Place, Row]]) -> None:
        """As ``apply``, for rows of several tenants and stores in the database of one of them, in one transaction.

        No disk is waited for: all these databases are one server's, which flushes in the order of commits. What the
        control database says of these rows afterwards is never kept without them.
        """
        if not rows:
            return
        tenants: dict[str, Place] = {}
        for place, _ in rows:
            tenants.setdefault(place.tenant_id, place)
        newest = {(place.store, place.tenant_id, row[0]): row for place, row in sorted(rows, key=_by_version)}
        self.connection(database).execute(
            "select set_config('synchronous_commit', 'off', true), tenancy.apply_rows"
            "(%s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bytea[], %s::bool[])",
            (
                [self.context(place) for place in tenants.values()],  # once for each: it asks that database's clock
                Texts([store for store, _, _ in newest]),
                Texts([tenant for _, tenant, _ in newest]),
                Texts([row[0] for row in newest.values()]),
                Bigints([row[1] for row in newest.values()]),
                Blobs([row[2] for row in newest.values()]),
                Booleans([row[3] for row in newest.values()]),
            ),
        )

    def reseal(self, place: Place, rows: Sequence[Row], sealed: Sequence[bytes]) -> set[str]:
        """Those rows have these payloads in place of theirs, but what was written since they were read; which have."""
        query = "select * from tenancy.reseal_rows(%s, %s, %s, %s::text[], %s::bigint[], %s::bytea[], %s::bytea[])"
        given = (
            *(self.context(place), place.store, place.tenant_id, Texts([row[0] for row in rows])),
            *(Bigints([row[1] for row in rows]), Blobs([row[2] for row in rows]), Blobs(list(sealed))),
        )
        return {row[0] for row in self.connection(place).execute(query, given)}

    def make(self, place: Place) -> None:
        """The store is there afterwards, empty or as it was."""
        if place.mode == "dedicated":
            self._make_database(place)
        elif place.mode == "partitioned":
            self.control.execute("select tenancy.make_store(%s)", (place.store,))

    def empty(self, place: Place) -> int:
        """No row of the tenant is there afterwards; a store of its own is gone. How many there were, if counted."""
        if place.mode == "pooled":
            removed, query = 0, "select tenancy.remove_rows(%s, %s, %s, %s)"
            while True:
                given = (self.context(place), place.store, place.tenant_id, tenancy_limits.MOVE_PAGE_ROWS)
                (found,) = self.control.execute(query, given).fetchone() or (0,)
                removed += found
                if not found:
                    return removed
        if place.mode == "partitioned":
            self.control.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(place.store)))
            return 0
        if connection := self._dedicated.pop(place.placement_id, None):
            connection.close()
        self._drop(databases.name_of(self.control.info.dbname, place.placement_id))
        return 0

    def is_gone(self, place: Place) -> bool:
        """Whether its own database is not there any more; one that is away for a while is."""
        if place.mode != "dedicated":
            return False
        name = databases.name_of(self.control.info.dbname, place.placement_id)
        query = "select 1 from pg_database where datname = %s and datconnlimit <> %s"
        return self.control.execute(query, (name, _INVALID)).fetchone() is None

    def open_gate(self, place: Place, generation: int) -> None:
        """A dedicated database takes contexts of this generation, and of no older one."""
        if place.mode == "dedicated":
            self.connection(place).execute(
                "insert into tenancy.gate (tenant_id, generation, access) values (%s, %s, 'rw')"
                " on conflict (tenant_id) do update"
                " set generation = greatest(tenancy.gate.generation, excluded.generation)",
                (place.tenant_id, generation),
            )

    def _drop(self, database: str) -> None:
        """It takes no session first: an ingress that reads there would come back at once.

        One whose drop was cut short by a crash takes none already; whoever does anything to it but drop it loses its
        session: the mover would, for ever.
        """
        name = sql.Identifier(database)
        row = self.control.execute("select datconnlimit from pg_database where datname = %s", (database,)).fetchone()
        if row is not None:
            if row[0] != _INVALID:
                self.control.execute(sql.SQL("alter database {} with allow_connections false").format(name))
            self.control.execute("select tenancy.end_sessions(%s)", (database,))
            self.control.execute(sql.SQL("drop database if exists {}").format(name))

    def _make_database(self, place: Place) -> None:
        name = databases.name_of(self.control.info.dbname, place.placement_id)
        if not self.control.execute("select 1 from pg_database where datname = %s", (name,)).fetchone():
            self.control.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        connection = self.connection(place)
        connection.execute("select tenancy.make_store(%s)", (POOLED_SCHEMA,))
        contexts.install(connection, self._secrets)
        self.open_gate(place, place.generation)


def _row(row: tuple[Any, ...]) -> Row:
    return row[0], row[1], bytes(row[2]), row[3]


def _by_version(one: tuple[Place, Row]) -> int:
    return one[1][1]
