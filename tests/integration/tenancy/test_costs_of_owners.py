"""Commands, the owner's time and the bytes that tenants store are kept where the sink of ClickHouse reads what they cost."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import psycopg
import pytest

from dataflows.tenancy.mover.measuring import Measuring
from dataflows.tenancy.owner_costs import OwnerCosts
from schemas.tenancy import limits
from sinks.postgres.round_trip import RoundTrips
from tests.worlds.mover_world import world

if TYPE_CHECKING:
    from tests.servers import World
    from tests.worlds.mover_world import MoverWorld

__all__ = ["world"]  # the fixture of this module
pytestmark = [pytest.mark.servers]
KEPT = """
select source, count(*), sum(commands), sum(owner_us), sum(bytes_stored), sum(calls), array_agg(seq order by seq)
from tenant_cost_slice group by source order by source
"""


def test_what_tenants_cost_their_owner_and_what_they_store_is_kept(stack: World, world: MoverWorld) -> None:
    many = limits.BYTES_STORED_TENANTS + 2
    for n in range(many):
        world.tenant(f"tn_{n:03}", n % 2)
    world.written("tn_001", "rs_gone", 1)
    world.superuser.execute("update resource_head set size = 7")
    world.superuser.execute("update resource_head set deleted = true where resource_id = 'rs_gone'")
    measuring = Measuring(world.places)
    for _ in range(4):  # two pages, the end, and nothing more for half an hour
        assert not measuring.further(1)
    seconds = itertools.count(0, limits.OWNER_COSTS_KEPT_S)
    costs = OwnerCosts(lambda: float(next(seconds)))
    costs.began()
    costs.heard("tn_000")
    costs.committed()
    with psycopg.connect(stack.addresses.postgres_dsns["millrace_tenancy_owner"]) as owner:
        RoundTrips(owner).write([("begin", None), *costs.due(), ("commit", None)])
    stored, owned = world.superuser.execute(KEPT).fetchall()
    assert stored[:6] == ("mover", many // 2, 0, 0, 7 * (many // 2), 0)
    assert owned == ("owner", 1, 1, limits.OWNER_COSTS_KEPT_S * 1_000_000, 0, 0, [many // 2 + 1])
    assert stored[6] == list(range(1, many // 2 + 1))
