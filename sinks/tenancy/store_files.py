"""What every store of tenants' rows has: migrations named ``..._tenant_store_...``, applied in each of their databases.

A database of a tenant's own says itself which of them it has. One that lacks any is served by nobody until it has it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import psycopg

from sinks import limits
from sinks.postgres.migrate import files
from sinks.tenancy import databases

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg import Connection

_NAMED: Final = re.compile(r"_tenant_store[._]")
_LOCK: Final = 0x73746F72  # "stor"
_HAS_TABLE: Final = "select to_regclass('tenancy.store_file') is not null"
_DEDICATED: Final = (
    "select placement_id from placement where mode = 'dedicated' and state = 'active' order by placement_id"
)
_APPLIED: Final = "insert into tenancy.store_file (file) select unnest(%s::text[]) on conflict do nothing"
_MADE_BY: Final = "millrace_tenancy_mover"


@cache
def store_files() -> tuple[tuple[str, str], ...]:
    """Name and text of each, in order."""
    return tuple((name, text) for name, text in files() if _NAMED.search(name))


def missing(applied: set[str]) -> list[str]:
    """Which of them a store with these lacks."""
    return [name for name, _ in store_files() if name not in applied]


def applied_in(connection: Connection[Any]) -> set[str]:
    """Which of them this database has; none where it is no store yet."""
    if connection.execute("select to_regnamespace('tenancy')").fetchone() == (None,):
        return set()
    if connection.execute(_HAS_TABLE).fetchone() == (False,):
        return {store_files()[0][0]}  # made before databases said what they have
    return {row[0] for row in connection.execute("select file from tenancy.store_file")}


def ensure(connection: Connection[Any]) -> list[str]:
    """The database has all of them afterwards; what was applied now. For the role that made the database."""
    if not (lacking := missing(applied_in(connection))):
        return lacking
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
        lacking = missing(applied_in(connection))
        for name, text in store_files():
            if name in lacking:
                connection.execute(text.encode())
        connection.execute(_APPLIED, (lacking,))
    return lacking


def ensure_all(control_dsn: str, dsns: Mapping[str, str]) -> dict[str, str]:
    """Every database of a tenant's own has all of them afterwards, but those told, each with why not."""
    told: dict[str, str] = {}
    with psycopg.connect(control_dsn, connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S) as connection:
        placements = [row[0] for row in connection.execute(_DEDICATED.encode())]
    for placement_id in placements:
        dsn = databases.dsn_of(dsns[_MADE_BY], placement_id)
        try:
            with psycopg.connect(dsn, autocommit=True, connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S) as connection:
                ensure(connection)
        except psycopg.Error as error:
            told[placement_id] = str(error).strip()
    return told
