"""Stores made for those who wait for them, and images brought to stores that the owner's commit does not reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dataflows.tenancy.mover.each import each
from dataflows.tenancy.mover.tenant_rows import Place
from schemas.tenancy import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from dataflows.tenancy.mover.tenant_rows import Places, Row

SQL: Final = queries("dataflows.tenancy.mover", "mover.sql")


def provision(places: Places, now: int) -> bool:
    """Makes the stores of placements that are asked for; their tenants are served then."""

    def make(row: tuple[Any, ...]) -> bool:
        placement_id, mode, tenant_id, generation = row
        place = Place(
            tenant_id=tenant_id,
            generation=generation,
            placement_id=placement_id,
            mode=mode,
            shard_or_database=placement_id,
        )
        places.make(place)
        with places.control.transaction():
            places.control.execute(SQL["placement_active"].encode(), {"placement_id": placement_id})
            places.control.execute(SQL["tenants_activate"].encode(), {"tenant_id": tenant_id, "now": now})
        return True

    found = places.control.execute(SQL["provisioning"].encode(), {"limit": limits.MOVER_ITEMS_MAX}).fetchall()
    return each(places, "provision", found, make)


def bring(places: Places) -> bool:
    """Applies images that wait, and forgets them once they are there. Any order and repetition will do.

    Each placement has its turn: one whose database is away holds up no other.
    """
    rows = places.control.execute(SQL["feed_placements"].encode(), {"limit": limits.MOVER_ITEMS_MAX}).fetchall()
    return each(places, "feed", (row[0] for row in rows), lambda placement_id: bring_to(places, placement_id))


def bring_to(places: Places, placement_id: str) -> bool:
    """Some of the images that wait for one placement, those that wait longest first; whether there were any."""
    asked = {"placement_id": placement_id, "limit": limits.MOVE_PAGE_ROWS}
    found = places.control.execute(SQL["feed_next"].encode(), asked).fetchall()
    waiting: list[tuple[Place, Row]] = []
    for _, tenant_id, resource_id, version, payload, deleted, mode, shard, generation in found:
        place = Place(
            tenant_id=tenant_id,
            generation=generation,
            placement_id=placement_id,
            mode=mode,
            shard_or_database=shard,
        )
        waiting.append((place, (resource_id, version, bytes(payload), deleted)))
    if waiting:
        places.apply_all(waiting[0][0], waiting)
        done = {"placement_id": placement_id, "seqs": [row[0] for row in found]}
        places.control.execute(SQL["feed_done"].encode(), done)
    return bool(waiting)
