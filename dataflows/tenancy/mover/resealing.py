"""After a rotation all that lies under older keys of a tenant is sealed anew, a page at a time; then they are retired.

The older keys are closed first, a while after the rotation: owners refuse what is sealed under them from that commit
on, so a page that is done stays done, and nothing is written behind it. A page changes a row only where it is as it
was read: whatever was written meanwhile wins. How far a tenant is stands in ``tenant_reseal``: a page may come twice.

Nothing is done while a move of the tenant is open. The mover takes moves further and seals anew in one thread, so no
page is copied or compared while it is sealed; a move that is planned meanwhile begins behind the page.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import structlog
from prometheus_client import Counter, Gauge

from dataflows.owner import fail_points
from dataflows.tenancy.mover.each import each
from dataflows.tenancy.mover.endings import OpenKeys
from schemas import errors
from schemas.tenancy import limits
from sinks.postgres.sql_files import queries
from sinks.tenancy import seals

if TYPE_CHECKING:
    from dataflows.tenancy.mover.tenant_rows import Place, Places, Row
    from sinks.tenancy.key_lease import KeyLease
    from sinks.tenancy.root_keys import RootKeys

SQL: Final = queries("dataflows.tenancy.mover", "mover.sql")
_SECOND_US: Final = 1_000_000
_log: Final = structlog.get_logger(__name__)
RESEALED: Final = Counter(
    "millrace_tenancy_resealed", "What was sealed anew behind rotations of tenants' keys", ["kind"]
)
WAITING: Final = Gauge("millrace_tenancy_reseal_tenants", "Tenants of which something may lie under an older key")


class Resealing:
    """The tenants of one mover."""

    def __init__(self, places: Places, root_keys: RootKeys, lease: KeyLease) -> None:
        self._places = places
        self._control = places.control
        self._root_keys = root_keys
        self._lease = lease
        self._look_at = 0
        self._due_at = 0.0

    def further(self, now: int) -> bool:
        """Whether a page was sealed. Some tenants at once, no faster than so many rows a second."""
        if now < self._look_at or time.monotonic() < self._due_at:
            return False
        asked = {"before": now - limits.RESEAL_AFTER_S * _SECOND_US, "limit": limits.RESEAL_TENANTS_AT_ONCE}
        rows = self._control.execute(SQL["reseal_due"].encode(), asked).fetchall()
        if not rows:
            self._look_at = now + limits.RESEAL_LOOK_S * _SECOND_US
            WAITING.set(*(self._control.execute(SQL["reseal_waiting"].encode()).fetchone() or (0,)))
            return False
        self._due_at = time.monotonic() + limits.RESEAL_PAGE_ROWS * len(rows) / limits.RESEAL_ROWS_PER_SECOND

        def step(row: tuple[Any, ...]) -> bool:
            tenant_id, newest, under_way, after = row
            return self._step(tenant_id, newest, under_way, after, now)

        return each(self._places, "seal rows anew", rows, step)

    def _step(self, tenant_id: str, newest: int, under_way: int | None, after: str | None, now: int) -> bool:
        named = {"tenant_id": tenant_id, "newest": newest, "now": now}
        if under_way != newest or after is None:
            return self._begin(named)
        place = self._places.serving(tenant_id)
        keys = OpenKeys(self._places, self._root_keys, self._lease, tenant_id)
        if keys.newest != newest:
            return True  # rotated meanwhile: begun anew
        rows = self._places.rows_after(place, after, limits.RESEAL_PAGE_ROWS)
        if not rows:
            return self._part(keys, named) or self._retire(named)
        upto, sealed = self._page(place, keys, rows)
        fail_points.reach("reseal_after_page")
        told = named | {"after": after, "upto": upto, "looked_at": len(rows), "resealed": sealed}
        self._control.execute(SQL["reseal_went_on"].encode(), told)
        return True

    def _begin(self, named: dict[str, Any]) -> bool:
        """Older keys are closed; from the first id on, once no image on its way is under one of them."""
        with self._control.transaction():
            self._control.execute(SQL["tenant_state_locked"].encode(), named)  # what was decided before is committed
            self._control.execute(SQL["keys_closed"].encode(), named)
            if self._control.execute(SQL["reseal_feed_left"].encode(), named).fetchone() == (True,):
                return False
            self._control.execute(SQL["reseal_begun"].encode(), named)
        return True

    def _page(self, place: Place, keys: OpenKeys, rows: list[Row]) -> tuple[str | None, int]:
        """Up to which id nothing is left under an older key, None for none of them, and how many were sealed anew."""
        old = [row for row in rows if not row[3] and not seals.is_of(row[2], "resources", keys.newest)]
        anew = [keys.seal("resources", row[0], keys.unseal(row[0], row[2])) for row in old]
        done = self._places.reseal(place, old, anew) if old else set()
        RESEALED.labels("row").inc(len(done))
        upto, left = None, {row[0] for row in old} - done
        for row in rows:
            if row[0] in left:  # somebody else writes it: looked at again
                break
            upto = row[0]
        return upto, len(done)

    def _part(self, keys: OpenKeys, named: dict[str, Any]) -> bool:
        """One part of an export; whether there was one."""
        head = named | {"head": seals.head_of("exports", keys.newest)}
        row = self._control.execute(SQL["reseal_export_part"].encode(), head).fetchone()
        if row is None:
            return False
        export_id, part, was = row
        place = f"{export_id}:{part}"
        sealed = keys.seal("exports", place, keys.unseal(place, bytes(was), "exports"))
        changed = named | {"export_id": export_id, "part": part, "was": was, "sealed": sealed}
        if self._control.execute(SQL["reseal_export_part_done"].encode(), changed).rowcount:
            RESEALED.labels("export_part").inc()
        return True

    def _retire(self, named: dict[str, Any]) -> bool:
        """Nothing is left under older keys, and nothing comes. Raises CasMiss where another mover was there."""
        with self._control.transaction():
            if self._control.execute(SQL["reseal_finished"].encode(), named).rowcount != 1:
                raise errors.CasMiss(tenant=named["tenant_id"])
            self._control.execute(SQL["keys_retired"].encode(), named)
        _log.info("tenant_keys_retired", tenant_id=named["tenant_id"], key_version=named["newest"])
        return True
