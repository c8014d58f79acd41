"""What a tenant may use, and uses. Hard quotas are decided in the owner's commit; this only shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from schemas.tenancy.value_types import limits_of

if TYPE_CHECKING:
    from ingress.http.store import Store
    from ingress.tenancy.tenants import Tenant

#: always shown: it is counted for every tenant
_RESOURCES: Final = "resources"


class Quotas:
    """Reads of one process."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def of(self, tenant: Tenant) -> dict[str, Any]:
        """All of a tenant's."""
        used = dict(await self._store.rows("quota_usage", {"tenant_id": tenant.tenant_id}))
        return {"data": shown(tenant.quotas, used)}


def shown(quotas: dict[str, str], used: dict[str, int]) -> list[dict[str, Any]]:
    """Every dimension that has a limit, or is counted here; usage that is metered is not: ``used`` is None."""
    limits = limits_of(quotas)
    counted = {_RESOURCES: 0} | used
    dimensions = sorted({*counted, *limits})
    return [{"dimension": d, "limit": limits.get(d), "used": counted.get(d)} for d in dimensions]
