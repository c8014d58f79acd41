"""Which store a tenant comes to, and which takes nobody: full, drained or retired."""

from __future__ import annotations

from typing import Any

from dataflows.tenancy.domain import capacity
from dataflows.tenancy.domain.capacity import Store
from schemas.records import Denial
from schemas.tenancy import limits

MODES = {"schemas": "partitioned", "databases": "dedicated"}


def store(name: str, tenants: int, tenants_max: int | None = 10, **others: Any) -> Store:
    sizes: dict[str, Any] = {"bytes": None, "bytes_max": None}
    said = sizes | {"tenants": tenants, "tenants_max": tenants_max} | others
    return Store(store=name, mode=MODES.get(name, "pooled"), **said)


def test_a_tenant_comes_where_the_smallest_part_is_taken_and_nowhere_where_all_is_full() -> None:
    pools = [store("tenancy_pool", 9), store("tenancy_pool_2", 4), store("tenancy_pool_3", 900, 2_000)]
    one = capacity.chosen([*pools, store("schemas", 0)], "pooled")
    assert isinstance(one, Store)
    assert one.store == "tenancy_pool_2"
    heavy = [store("tenancy_pool", 0, bytes_max=100, bytes=100), store("tenancy_pool_2", 0, 0)]
    full = capacity.chosen(heavy, "pooled")
    assert isinstance(full, Denial)
    assert (full.code, full.extra) == ("placement_full", {"mode": "pooled", "capacity": 10, "used": 0})
    assert "millrace tenants store" in full.detail
    leaves = [
        store("tenancy_pool", 0, standing="draining"),
        store("tenancy_pool_2", 9),
        store("tenancy_pool_3", 10),
    ]
    there = capacity.chosen(leaves, "pooled")
    assert isinstance(there, Store)
    assert (there.store, [one.state for one in leaves]) == ("tenancy_pool_2", ["draining", "active", "full"])
    nowhere = capacity.chosen([leaves[0], leaves[2], store("tenancy_pool_4", 0, standing="retired")], "pooled")
    assert isinstance(nowhere, Denial)
    assert nowhere.extra == {"mode": "pooled", "capacity": 10, "used": 10}
    fits = [store("tenancy_pool", 0, bytes_max=100, bytes=99), store("tenancy_pool", 0, bytes_max=100)]
    assert all(one.has_room for one in fits)  # what was not measured yet closes nothing
    unsaid = store("databases", limits.STORE_TENANTS_MAX["dedicated"], None)
    assert (unsaid.places, unsaid.has_room) == (limits.STORE_TENANTS_MAX["dedicated"], False)
