"""Safe mode: once it is proved that tenants can reach each other, none of them is shown anything until persons lift it.

Every process looks once a second. Not knowing is as if it were on: without the database no tenant is served either.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

import structlog

from ingress.http import metrics
from ingress.operators import decisions
from schemas import errors
from schemas.tenancy import limits
from schemas.tenancy.instants import instant

if TYPE_CHECKING:
    from ingress.http.store import Store

#: why it cannot be lifted, by the database's word
_CONFLICTS: Final = {
    "mode_off": "Safe mode is not on.",
    "evidence_open": "A violation waits for a person, or the catalog has a gap: see the evidence.",
    "round_outstanding": "The monitor has made no whole round since, or none lately: what it would find is not known.",
}


class SafeMode:
    """What one process knows of it, and the door of those who decide."""

    def __init__(self, store: Store, audited_store: Store) -> None:
        self._store = store
        self._audited_store = audited_store
        self._looking = asyncio.Lock()
        self._looked_at = float("-inf")
        self._is_on = False
        self._canaries: frozenset[str] = frozenset()

    async def require_off(self, tenant_id: str = "") -> None:
        """Raises SafeMode while it is on, but for a tenant of the monitor's own; Unavailable when nobody knows."""
        if time.monotonic() - self._looked_at >= limits.TENANTS_CACHED_S:
            async with self._looking:  # one looks for all that wait
                if time.monotonic() - self._looked_at >= limits.TENANTS_CACHED_S:
                    await self._look()
        if self._is_on and tenant_id not in self._canaries:
            raise errors.SafeMode

    async def _look(self) -> None:
        begun, was_on = time.monotonic(), self._is_on
        ((self._is_on, canaries, *_),) = await self._store.rows("isolation_safe_mode", {})
        if self._is_on != was_on:
            structlog.get_logger().error("isolation_safe_mode", on=self._is_on)
        metrics.SAFE_MODE.set(self._is_on)
        self._canaries, self._looked_at = frozenset(canaries), begun

    async def shown(self) -> dict[str, Any]:
        """Whether it is on, since when and why, and who would lift it."""
        ((is_on, _, since, probe, evidence, proposed_by),) = await self._store.rows("isolation_safe_mode", {})
        if not is_on:
            return {"on": False, "since": None, "probe": None, "evidence": None, "proposed_by": None}
        found = {"probe": probe, "evidence": evidence, "proposed_by": proposed_by}
        return {"on": True, "since": instant(since)} | found

    async def close(self, person: str, note: str) -> None:
        """On, by hand. Raises StateConflict when it is."""
        asked = {"person": person, "note": note}
        decisions.require(await self._audited_store.word("isolation_close", asked), "closed")

    async def lift(self, person: str, note: str) -> str:
        """What it is now: proposed by the first person, lifted by another. Raises FourEyesRequired, StateConflict."""
        asked = {"person": person, "note": note, "stale_s": limits.ISOLATION_STALE_S}
        word = await self._audited_store.word("isolation_lift", asked)
        if word != "proposed":
            decisions.require(word, "lifted", _CONFLICTS)
        return word
