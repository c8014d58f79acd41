"""What a tenant may now: by yes or no, by value, or by what is left, at once or in this period of its calendar."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn

from schemas import errors
from schemas.calendar_windows import Calendar, window_at
from schemas.tenancy.entitlements import shown
from schemas.tenancy.instants import instant

if TYPE_CHECKING:
    from ingress.http.store import Store
    from ingress.tenancy.usage.questions import Questions

_SECOND_US: Final = 1_000_000
Said = dict[str, dict[str, Any]]
Span = tuple[int, int]


class Entitlements:
    """Reads of one process."""

    def __init__(self, store: Store, questions: Questions) -> None:
        self._store = store
        self._questions = questions

    async def of(self, tenant_id: str, timezone: str) -> tuple[dict[str, Any], int]:
        """Every feature that was said of the tenant, and the version of that; what was not said, it may not.

        Raises Overloaded, DependencyTimeout.
        """
        rows = await self._store.rows("entitlements_of_tenant", {"tenant": tenant_id})
        texts, versions, version = rows[0] if rows else ({}, {}, 0)
        told = await self._told(tenant_id, timezone, shown(texts))
        return {"data": [one | {"version": versions.get(one["feature"], version)} for one in told]}, version

    async def require(self, tenant_id: str, timezone: str, feature: str) -> dict[str, Any]:
        """One feature that the tenant may now, with a ``warning`` where a soft limit is reached.

        Raises NotFound for what was never said, Forbidden for what is said to be off, QuotaExceeded where nothing is
        left, and as ``of``.
        """
        rows = await self._store.rows("entitlements_of_tenant", {"tenant": tenant_id})
        texts, versions, version = rows[0] if rows else ({}, {}, 0)
        if feature not in texts:
            raise errors.NotFound
        (told,) = await self._told(tenant_id, timezone, shown({feature: texts[feature]}))
        if not told["allowed"]:
            _refuse(told)
        return told | {"version": versions.get(feature, version)}

    async def _told(self, tenant_id: str, timezone: str, said: Said) -> list[dict[str, Any]]:
        now_s, periods = int(time.time()), {one["period"] for one in said.values() if "period" in one}
        spans = {period: window_at(Calendar(period, timezone), now_s) for period in periods}
        used = await self._metered(tenant_id, spans, said)
        if any(one["kind"] == "limit" for one in said.values()):
            counted = dict(await self._store.rows("quota_usage", {"tenant_id": tenant_id}))
            used |= {name: counted.get(one["dimension"], 0) for name, one in said.items() if one["kind"] == "limit"}
        return [_row(feature, one, used.get(feature, 0), spans) for feature, one in said.items()]

    async def _metered(self, tenant_id: str, spans: dict[str, Span], said: Said) -> dict[str, int]:
        metered = [name for name, one in said.items() if one["kind"] == "metered"]
        if not metered:
            return {}
        edges = [tuple(datetime.fromtimestamp(at, UTC) for at in spans[said[name]["period"]]) for name in metered]
        asked = {
            "tenant": tenant_id,
            "dimensions": [said[name]["dimension"] for name in metered],
            "froms": [begins for begins, _ in edges],
            "tos": [ends for _, ends in edges],
        }
        async with self._questions.turn(tenant_id):
            return {metered[n]: int(sum_) for n, sum_ in await self._store.rows("usage_of_dimensions", asked)}


def _row(feature: str, said: dict[str, Any], used: int, spans: dict[str, Span]) -> dict[str, Any]:
    found = {"feature": feature, **said}
    if "limit" not in said:
        return found | {"allowed": said["value"] is not False}
    left = None if said["limit"] is None else max(0, said["limit"] - used)
    if "period" in said:
        begins, ends = (instant(at * _SECOND_US) for at in spans[said["period"]])
        found |= {"from": begins, "to": ends}
    is_reached = left == 0
    return found | {
        "used": used,
        "remaining": left,
        "allowed": said["soft"] or not is_reached,
        "warning": said["soft"] and is_reached,
    }


def _refuse(told: dict[str, Any]) -> NoReturn:
    if "limit" not in told:
        raise errors.Forbidden("The tenant is not entitled to this.")
    named = {name: told[name] for name in ("feature", "dimension", "limit", "used")}
    raise errors.QuotaExceeded("The tenant has used all that it is entitled to.", named)
