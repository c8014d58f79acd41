"""What a tenant may now: by yes or no, by value, or by what is left of it in this month of its calendar."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from schemas.calendar_windows import Calendar, window_at
from schemas.tenancy.entitlements import shown
from schemas.tenancy.instants import instant

if TYPE_CHECKING:
    from ingress.http.store import Store
    from ingress.tenancy.tenants import Tenant
    from ingress.tenancy.usage.questions import Questions

_SECOND_US = 1_000_000


class Entitlements:
    """Reads of one process."""

    def __init__(self, store: Store, questions: Questions) -> None:
        self._store = store
        self._questions = questions

    async def of(self, tenant: Tenant) -> tuple[dict[str, Any], int]:
        """Every feature that was said of the tenant, and the version of that; what was not said, it may not."""
        rows = await self._store.rows("entitlements_of_tenant", {"tenant": tenant.tenant_id})
        texts, version = rows[0] if rows else ({}, 0)
        said = shown(texts)
        month = window_at(Calendar("month", tenant.timezone), int(time.time()))
        used = await self._used(tenant.tenant_id, month, {one["dimension"] for one in said.values() if "limit" in one})
        return {"data": [_row(feature, one, used, month) for feature, one in said.items()]}, version

    async def _used(self, tenant_id: str, month: tuple[int, int], dimensions: set[str]) -> dict[str, int]:
        if not dimensions:
            return {}
        begins, ends = (datetime.fromtimestamp(at, UTC) for at in month)
        asked = {"tenant": tenant_id, "dimensions": sorted(dimensions), "from": begins, "to": ends}
        async with self._questions.turn(tenant_id):
            return {name: int(sum_) for name, sum_ in await self._store.rows("usage_of_dimensions", asked)}


def _row(feature: str, said: dict[str, Any], used: dict[str, int], month: tuple[int, int]) -> dict[str, Any]:
    found = {"feature": feature, **said}
    if "limit" not in said:
        return found | {"allowed": said["value"] is not False}
    so_far, limit = used.get(said["dimension"], 0), said["limit"]
    left = None if limit is None else max(0, limit - so_far)
    begins, ends = (instant(at * _SECOND_US) for at in month)
    return found | {"used": so_far, "remaining": left, "from": begins, "to": ends, "allowed": left != 0}
