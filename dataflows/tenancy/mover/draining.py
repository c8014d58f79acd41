"""A schema that tenants share is emptied, some of its tenants at once; once nobody is in it, it is retired.

A move is planned under the locks that an owner takes who is asked for one, so whatever came between wins. What is
under way stands in the moves themselves: a mover that was killed goes on where it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import structlog

from dataflows.owner import fail_points
from dataflows.tenancy.domain import capacity
from dataflows.tenancy.domain.capacity import Store
from dataflows.tenancy.domain.tenant import placement_of
from dataflows.tenancy.mover.each import each
from schemas.records import Denial
from schemas.tenancy import limits
from schemas.tenancy.operations import made_id
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from dataflows.tenancy.mover.tenant_rows import Places

SQL: Final = queries("dataflows.tenancy.mover", "mover.sql")
_SECOND_US: Final = 1_000_000
_MOVABLE: Final = frozenset({"active", "suspended", "offboarding", "exported"})
_log: Final = structlog.get_logger(__name__)


class Draining:
    """The stores of one mover that are drained."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._control = places.control

    def further(self, now: int) -> bool:
        """Whether a move was planned, or a store retired."""
        rows = self._control.execute(SQL["stores_draining"].encode()).fetchall()

        def drain(row: tuple[Any, ...]) -> bool:
            store, soak_s, moving = row
            return self._drain(store, soak_s, moving, now)

        return each(self._places, "drain a store", rows, drain)

    def _drain(self, store: str, soak_s: int | None, moving: int, now: int) -> bool:
        if self._control.execute(SQL["store_retired"].encode(), {"store": store}).rowcount == 1:
            _log.info("tenant_store_retired", store=store)
            return True
        tried_since = now - limits.DRAIN_AGAIN_S * _SECOND_US
        further = max(limits.DRAIN_MOVES_MAX - moving, 0)
        asked = {"store": store, "tried_since": tried_since, "limit": further}
        tenants = self._control.execute(SQL["drain_next"].encode(), asked).fetchall()

        def plan(row: tuple[Any, ...]) -> bool:
            return self._plan(row[0], store, soak_s, now)

        return each(self._places, "drain a tenant", tenants, plan)

    def _plan(self, tenant_id: str, store: str, soak_s: int | None, now: int) -> bool:
        """A move of one of its tenants. False where that went elsewhere, or no other store has room now."""
        control = self._control
        with control.transaction():
            tenant = control.execute(SQL["drain_locked"].encode(), {"tenant_id": tenant_id}).fetchone()
            if tenant is None or tenant[2] not in _MOVABLE:
                return False
            version, generation, _, placement_id = tenant
            asked = {"tenant_id": tenant_id, "placement_id": placement_id}
            source = control.execute(SQL["drain_source"].encode(), asked).fetchone()
            if source is None or source[1:] != (store, "pooled", False):
                return False
            stores = [_store(row) for row in control.execute(SQL["stores_held"].encode()).fetchall()]
            if not any(one.store == store and one.standing == capacity.DRAINING for one in stores):
                return False
            room = capacity.chosen(capacity.others(stores, "pooled", store), "pooled")
            if isinstance(room, Denial):
                return False
            given = {"mode": "pooled", "region": source[0]}
            target = placement_of(given, tenant_id, pool=room.store).placement_id
            self._write(
                {
                    "tenant_id": tenant_id,
                    "migration_id": made_id("mg", "drain_placement", tenant_id, str(version)),
                    "source": placement_id,
                    "target": target,
                    "generation": generation,
                    "rows_per_second": limits.MOVE_ROWS_PER_SECOND_MAX,
                    "store": store,
                    "soak_s": soak_s,
                    "now": now,
                },
                {"placement_id": target, "region": source[0], "store": room.store},
            )
        fail_points.reach("drain_after_plan")
        return True

    def _write(self, move: dict[str, Any], target: dict[str, Any]) -> None:
        self._control.execute(SQL["drain_target"].encode(), target)
        self._control.execute(SQL["drain_planned"].encode(), move)
        self._control.execute(SQL["drain_touched"].encode(), move)


def _store(row: tuple[Any, ...]) -> Store:
    return Store(**dict(zip(Store.__struct_fields__, row, strict=True)))
