"""Dual reads: what a caller was given of the source of a move that verifies is compared with the target, afterwards.

No caller waits for it, and none is refused because of it. What differs is written, and the move is given up.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import psycopg
from msgspec import structs

from dataflows.tenancy.domain.comparison import Comparison, Side, count
from schemas import errors
from schemas.tenancy import limits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingress.http.store import Store
    from ingress.tenancy.stores import TenantStores
    from ingress.tenancy.tenants import DualTarget, Known

_AWAY: Final = (errors.Unavailable, psycopg.Error)


class DualReads:
    """Of one process. So many are under way at most; what is read beyond them is not compared."""

    def __init__(self, store: Store, stores: TenantStores) -> None:
        self._store = store
        self._stores = stores
        self._under_way: set[asyncio.Task[None]] = set()

    def compare(self, known: Known, given: Mapping[str, Side]) -> None:
        """Begins to compare what a caller was given, where there is another side; returns at once."""
        target = known.dual_target
        if target is None or not given or len(self._under_way) >= limits.DUAL_READS_UNDER_WAY_MAX:
            return
        task = asyncio.create_task(self._compare(known, target, given))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def close(self) -> None:
        """Waits for those under way."""
        await asyncio.gather(*self._under_way)

    async def _compare(self, known: Known, target: DualTarget, given: Mapping[str, Side]) -> None:
        named = {"tenant_id": known.tenant.tenant_id}
        there = structs.replace(
            known.tenant,
            placement_id=target.placement_id,
            mode=target.mode,
            shard_or_database=target.shard_or_database,
        )
        try:
            rows = await self._stores.rows(there, list(given))
            newest = dict(await self._store.rows("resource_versions", named | {"ids": list(given)}))
            found = Comparison()
            for id_, side in given.items():
                if id_ in newest:
                    count(found, newest[id_], side, rows.get(id_))
            counts = {name: getattr(found, name) for name in found.__struct_fields__}
            await self._store.rows("tenant_dual_reads", named | counts | {"migration_id": target.migration_id})
        except _AWAY:
            return  # the move is over, or a database is away: nothing was compared
