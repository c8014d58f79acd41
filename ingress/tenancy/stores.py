"""The stores of tenants' rows, as the ingress reads them: the control database and those of dedicated placements."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING

import psycopg

from ingress.http.store import Store
from schemas import errors
from schemas.tenancy import limits
from sinks.tenancy import databases, store_files

if TYPE_CHECKING:
    from ingress.tenancy.tenants import Tenant
    from sinks.tenancy.contexts import Contexts

Row = tuple[int, bytes, bool]  # version, sealed payload, deleted
POOL: str = "tenancy_pool"


def is_pooled(tenant: Tenant) -> bool:
    """Whether its rows are in the pool of the control database, and can be read with their heads."""
    return tenant.mode == "pooled" and tenant.shard_or_database == POOL


class TenantStores:
    """Reads rows under the tenant's signed context, so that no query can read another's. Pools are few and bounded."""

    def __init__(self, control: Store, dsn: str, contexts: Contexts) -> None:
        self._control = control
        self._dsn = dsn
        self._contexts = contexts
        self._dedicated: OrderedDict[str, Store] = OrderedDict()
        self._current: set[str] = set()  # of those, whose database has all that this release needs
        self._opening = asyncio.Lock()

    async def rows(self, tenant: Tenant, ids: list[str]) -> dict[str, Row]:
        """Those rows as the tenant's placement has them. Raises Unavailable, and psycopg errors of a stale context.

        Stale: of an older generation, or decided by an older policy, than the store knows of.
        """
        if not ids:
            return {}
        store = self._control
        if tenant.mode == "dedicated":
            store = await self._of(tenant.placement_id)
            await self._require_current(store, tenant.placement_id)
        parameters = {"context": self.context(tenant), "tenant_id": tenant.tenant_id, "ids": ids}
        if tenant.mode == "dedicated" or is_pooled(tenant):  # planned once in a session
            found = await store.rows("tenant_rows_pooled", parameters)
        else:
            found = await store.rows("tenant_rows", parameters | {"store": tenant.shard_or_database})
        return {id_: (version, bytes(payload), deleted) for id_, version, payload, deleted in found}

    def context(self, tenant: Tenant) -> str:
        """The signed context of who reads as this tenant was when that was decided."""
        return self._contexts.of(tenant.tenant_id, tenant.generation, "r", policy_version=tenant.policy_version)

    async def close(self) -> None:
        """Disconnects from dedicated databases."""
        for store in self._dedicated.values():
            await store.close()

    async def _of(self, placement_id: str) -> Store:
        async with self._opening:
            found = self._dedicated.get(placement_id)
            if found is None:
                found = Store(databases.dsn_of(self._dsn, placement_id), pool_max=limits.DEDICATED_POOL_MAX)
                found.heard = self._control.heard
                await found.open()
                self._dedicated[placement_id] = found
                if len(self._dedicated) > limits.DEDICATED_STORES_MAX:
                    evicted, oldest = self._dedicated.popitem(last=False)
                    self._current.discard(evicted)
                    await oldest.close()
            self._dedicated.move_to_end(placement_id)
            return found

    async def _require_current(self, store: Store, placement_id: str) -> None:
        """A database of an earlier release is not read: what it would answer may be wrong. Raises Unavailable."""
        if placement_id in self._current:
            return
        try:
            lacking = store_files.missing({row[0] for row in await store.rows("tenant_store_files", {})})
        except psycopg.errors.UndefinedTable:  # made before databases said what they have
            lacking = [name for name, _ in store_files.store_files()]
        if lacking:
            reason = "The tenant's database is of an earlier release, and is served after 'millrace migrate'."
            raise errors.Unavailable(reason, placement=placement_id, lacking=lacking[-1])
        self._current.add(placement_id)
