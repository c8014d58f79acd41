"""Who the tenants are and where their rows lie, for operators."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.rows import dict_row

from dataflows.tenancy.domain.capacity import Store
from schemas import errors
from schemas.tenancy import limits
from sinks.postgres.sql_files import queries
from sinks.tenancy import databases

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from psycopg import Connection

SQL: Final = queries("reconciliation.tenancy", "tenant_stores.sql")
_POOL: Final = "tenancy_pool"
_GONE: Final = "deleted"
_TARGETS: Final = frozenset({"prepared", "copying", "catching_up", "verifying", "fencing", "aborting"})
_REVERSES: Final = frozenset({"committed", "soaking", "rolling_back"})


def _rows(connection: Connection[Any], query: str, **named: Any) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(SQL[query].encode(), named).fetchall()


def stores_of(connection: Connection[Any], tenant_id: str, reader_dsn: str) -> dict[str, Any] | None:
    """The stores with rows of a tenant, none of a deleted one; None where there is no such tenant."""
    rows = _rows(connection, "tenant_places", tenant_id=tenant_id)
    if not rows:
        return None
    found = rows[0]
    stores = [] if found["state"] == _GONE else [_store(found, "serving", reader_dsn)]
    if found["move_state"] in _TARGETS | _REVERSES:
        other = found["target"] if found["target"] != found["placement_id"] else found["source"]
        role = "target" if found["move_state"] in _TARGETS else "reverse"
        (placement,) = _rows(connection, "placement_by_id", placement_id=other)
        stores.append(_store(placement, role, reader_dsn))
    return {"tenant_id": tenant_id, "generation": found["generation"], "stores": stores}


def _store(placement: dict[str, Any], role: str, reader_dsn: str) -> dict[str, str]:
    is_dedicated = placement["mode"] == "dedicated"
    schema = _POOL if is_dedicated else placement["shard_or_database"]
    dsn = databases.dsn_of(reader_dsn, placement["placement_id"]) if is_dedicated else reader_dsn
    return {
        "placement_id": placement["placement_id"],
        "role": role,
        "postgres_dsn": dsn,
        "table": f"{schema}.resource",
    }


def newest(connection: Connection[Any], after: str = "") -> list[dict[str, Any]]:
    """The tenants that came last, a page of them; with ``after`` those that came before that tenant."""
    return _rows(connection, "tenants_newest", limit=limits.TENANTS_LISTED_MAX, after=after)


def capacities(connection: Connection[Any]) -> list[dict[str, Any]]:
    """What each store of tenants' rows holds, and what it may."""
    return [_with_places(row) for row in _rows(connection, "stores_shown")]


def declare(connection: Connection[Any], store: str, given: Mapping[str, int | None]) -> dict[str, Any]:
    """The store with what it may hold (``tenants_max``, ``bytes_max``) as given; one that is new is to be made.

    Raises StateConflict for a name that no store can have.
    """
    says = {"sets_tenants": "tenants_max" in given, "sets_bytes": "bytes_max" in given}
    values = {"tenants_max": given.get("tenants_max"), "bytes_max": given.get("bytes_max")}
    try:
        (found,) = _rows(connection, "store_declared", store=store, **says, **values)
    except psycopg.errors.CheckViolation as error:
        names = "tenancy_pool, tenancy_pool_2 and so on, schemas, databases"
        raise errors.StateConflict(f"there is no store {store}: a store is one of {names}") from error
    return _with_places(found)


def _with_places(row: dict[str, Any]) -> dict[str, Any]:
    """With how many tenants it may hold where nobody said it."""
    held = Store(**{name: row[name] for name in Store.__struct_fields__})
    return row | {"tenants_max": held.places, "has_room": held.has_room and row["is_made"]}


def keys_by_root_key(connection: Connection[Any]) -> dict[str, int]:
    """How many keys of tenants each root key wraps; those that wrap none are not named."""
    return {row["root_key_id"]: row["keys"] for row in _rows(connection, "keys_by_root_key")}


@contextmanager
def keys_held_still(connection: Connection[Any]) -> Iterator[None]:
    """Meanwhile no key is wrapped, and none that was is uncommitted. Raises StateConflict while that goes on."""
    with connection.transaction():
        try:
            connection.execute(SQL["keys_held_still"].encode())
        except psycopg.errors.LockNotAvailable as error:
            raise errors.StateConflict("Keys of tenants are being made: try again.") from error
        yield


def noisy(connection: Connection[Any]) -> list[dict[str, Any]]:
    """Callers that had others of their partition wait, with what is proposed."""
    rows = _rows(connection, "noisy_tenants", limit=limits.TENANTS_LISTED_MAX)
    return [row | {"proposal": _proposal(row)} for row in rows]


def isolation(connection: Connection[Any]) -> dict[str, Any]:
    """What the isolation monitor found last, and whether safe mode is on."""
    (found,) = _rows(connection, "isolation_shown")
    return found


def _proposal(row: dict[str, Any]) -> str | None:
    if row["move_proposed_at"] is None or row["mode"] in (None, "dedicated"):
        return None
    return "move it to a dedicated database"


def tenant_of(connection: Connection[Any], tenant_id: str) -> dict[str, Any] | None:
    """One tenant; None where there is none."""
    return next(iter(_rows(connection, "tenant_shown", tenant_id=tenant_id)), None)
