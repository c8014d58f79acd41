"""Stores that operators asked for are made, and how many bytes each has, and each tenant, is measured now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prometheus_client import Gauge

from dataflows.tenancy.domain.capacity import Store
from dataflows.tenancy.mover.each import each
from schemas.tenancy import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from dataflows.tenancy.mover.tenant_rows import Places

SQL: Final = queries("dataflows.tenancy.mover", "mover.sql")
_SECOND_US: Final = 1_000_000
_LABELS: Final = ("store", "unit")
# Near its capacity: no further tenant is taken soon. Raise it, or add a store (millrace tenants store).
USED: Final = Gauge("millrace_tenancy_store_used", "What a store of tenants' rows holds, as measured last", _LABELS)
CAPACITY: Final = Gauge(
    "millrace_tenancy_store_capacity", "What it may hold; bytes only where an operator said", _LABELS
)


class Measuring:
    """The stores of one mover. Nothing waits for it."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._again_at = 0
        self._tenants_at = 0
        self._after = ""

    def make(self) -> bool:
        """Makes the schemas that tenants shall share; they are chosen then, and measured next."""
        control = self._places.control

        def made(row: tuple[Any, ...]) -> bool:
            control.execute("select tenancy.make_store(%s)", row)
            self._again_at = 0
            return control.execute(SQL["store_made"].encode(), {"store": row[0]}).rowcount == 1

        return each(self._places, "make a store", control.execute(SQL["stores_asked_for"].encode()).fetchall(), made)

    def further(self, now: int) -> bool:
        """Never anything that asks for another turn at once."""
        if now >= self._again_at:
            self._again_at = now + limits.STORES_MEASURED_S * _SECOND_US
            rows = self._places.control.execute(SQL["stores_measured"].encode()).fetchall()
            each(self._places, "measure a store", rows, self._keep)
        if now >= self._tenants_at:
            each(self._places, "measure tenants", (now,), self._tenants)
        return False

    def _tenants(self, now: int) -> bool:
        """What some of them keep, for analytics; after the last of them all rest."""
        asked = {"after": self._after, "limit": limits.BYTES_STORED_TENANTS}
        rows = self._places.control.execute(SQL["tenants_stored"].encode(), asked).fetchall()
        self._after = rows[-1][0] if rows else ""
        if not rows:
            self._tenants_at = now + limits.BYTES_STORED_KEPT_S * _SECOND_US
        kept = {tenant_id: size for tenant_id, size in rows if size}
        if kept:
            nothing = [0] * len(kept)
            given = {"tenants": list(kept), "none": nothing, "bytes": list(kept.values())}
            self._places.control.execute(SQL["tenants_stored_kept"].encode(), given)
        return False

    def _keep(self, row: tuple[Any, ...]) -> bool:
        name, size = row
        given = {"store": name, "bytes": size}
        found = self._places.control.execute(SQL["store_measured"].encode(), given).fetchone()
        if found is not None:
            tell(Store(**dict(zip(Store.__struct_fields__, found, strict=True))))
        return False


def tell(store: Store) -> None:
    """Sets the metrics of one."""
    USED.labels(store.store, "tenants").set(store.tenants)
    USED.labels(store.store, "bytes").set(store.bytes or 0)
    CAPACITY.labels(store.store, "tenants").set(store.places)
    if store.bytes_max is not None:
        CAPACITY.labels(store.store, "bytes").set(store.bytes_max)
