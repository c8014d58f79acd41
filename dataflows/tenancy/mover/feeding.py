"""Stores made for those who wait for them, and images brought to stores that the owner's commit does not reach."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from dataflows.tenancy.mover.place import Place
from schemas import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from dataflows.tenancy.mover.place import Places, Row

SQL: Final = queries("dataflows.tenancy.mover", "mover.sql")


def provision(places: Places, now: int) -> bool:
    """Makes the stores of placements that are asked for; their tenants are served then."""
    found = places.control.execute(SQL["provisioning"].encode(), {"limit": limits.MOVER_ITEMS_MAX}).fetchall()
    for placement_id, mode, tenant_id, generation in found:
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
    return bool(found)


def bring(places: Places) -> bool:
    """Applies the images that wait longest, and forgets them once they are there. Any order and repetition will do."""
    found = places.control.execute(SQL["feed_next"].encode(), {"limit": limits.MOVE_PAGE_ROWS}).fetchall()
    waiting: list[tuple[Place, int, Row]] = []
    for placement_id, seq, tenant_id, resource_id, version, payload, deleted, mode, shard, generation in found:
        place = Place(
            tenant_id=tenant_id,
            generation=generation,
            placement_id=placement_id,
            mode=mode,
            shard_or_database=shard,
        )
        waiting.append((place, seq, (resource_id, version, bytes(payload), deleted)))
    waiting.sort(key=lambda one: _database(one[0]))
    for _, group in groupby(waiting, lambda one: _database(one[0])):
        own = list(group)
        places.apply_all(own[0][0], [(place, row) for place, _, row in own])
        done = {"placements": [place.placement_id for place, _, _ in own], "seqs": [seq for _, seq, _ in own]}
        places.control.execute(SQL["feed_done"].encode(), done)
    return bool(found)


def _database(place: Place) -> str:
    return place.placement_id if place.mode == "dedicated" else ""
