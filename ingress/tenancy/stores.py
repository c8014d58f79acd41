"""The stores of tenants' rows, as the ingress reads them: the control database and those of dedicated placements."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING

from ingress.http.store import Store
from schemas import limits
from sinks.tenancy import databases

if TYPE_CHECKING:
    from ingress.tenancy.tenants import Tenant
    from sinks.tenancy.contexts import Contexts

Row = tuple[int, bytes, bool]  # version, sealed payload, deleted
POOL: str = "tenancy_pool"


class TenantStores:
    """Reads rows under the tenant's signed context, so that no query can read another's. Pools are few and bounded."""

    def __init__(self, control: Store, dsn: str, contexts: Contexts) -> None:
        self._control = control
        self._dsn = dsn
        self._contexts = contexts
        self._dedicated: OrderedDict[str, Store] = OrderedDict()
        self._opening = asyncio.Lock()

    async def rows(self, tenant: Tenant, ids: list[str]) -> dict[str, Row]:
        """Those rows as the tenant's placement has them. Raises Unavailable, and psycopg errors of a stale context."""
        if not ids:
            return {}
        store = self._control if tenant.mode != "dedicated" else await self._of(tenant.placement_id)
        parameters = {
            "context": self._contexts.of(tenant.tenant_id, tenant.generation, "r"),
            "store": POOL if tenant.mode == "dedicated" else tenant.shard_or_database,
            "tenant_id": tenant.tenant_id,
            "ids": ids,
        }
        found = await store.rows("tenant_rows", parameters)
        return {id_: (version, bytes(payload), deleted) for id_, version, payload, deleted in found}

    async def close(self) -> None:
        """Disconnects from dedicated databases."""
        for store in self._dedicated.values():
            await store.close()

    async def _of(self, placement_id: str) -> Store:
        async with self._opening:
            found = self._dedicated.get(placement_id)
            if found is None:
                found = Store(databases.dsn_of(self._dsn, placement_id), pool_max=limits.DEDICATED_POOL_MAX)
                await found.open()
                self._dedicated[placement_id] = found
                if len(self._dedicated) > limits.DEDICATED_STORES_MAX:
                    _, oldest = self._dedicated.popitem(last=False)
                    await oldest.close()
            self._dedicated.move_to_end(placement_id)
            return found
