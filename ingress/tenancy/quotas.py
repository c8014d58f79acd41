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
        """Every dimension that has a limit, or is counted."""
        used = dict(await self._store.rows("quota_usage", {"tenant_id": tenant.tenant_id}))
        limits = limits_of(tenant.quotas)
        dimensions = sorted({RESOURCES, *used, *limits})
        return {"data": [{"dimension": d, "limit": limits.get(d), "used": used.get(d, 0)} for d in dimensions]}
