"""What a tenant may use, and uses. Hard quotas are decided in the owner's commit; this only shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from schemas.tenancy.value_types import limits_of

if TYPE_CHECKING:
    from ingress.http.store import Store
    from ingress.tenancy.tenants import Tenant

#: always shown: it is counted for every tenant
RESOURCES: Final = "resources"


class Quotas:
    """Reads of one process."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def of(self, tenant: Tenant) -> dict[str, Any]:
        """Every dimension that has a limit, or is counted here; usage that is metered is not: ``used`` is None."""
        used = dict(await self._store.rows("quota_usage", {"tenant_id": tenant.tenant_id}))
        limits = limits_of(tenant.quotas)
        counted = {RESOURCES: 0} | used
        dimensions = sorted({*counted, *limits})
        return {"data": [{"dimension": d, "limit": limits.get(d), "used": counted.get(d)} for d in dimensions]}
