"""``GET /v1/processors``: every configured processor and how it is, for operators: what routers go by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from schemas import rendering
from schemas.payments import limits
from schemas.payments.processors import adapter_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingress.http.store import Store

_COUNTS: Final = ("succeeded", "declined", "failed", "unknown")
_BPS: Final = 10_000


class Processors:
    """Reads what the workers told lately. ``health`` is null of one that they have told nothing of for a while."""

    def __init__(self, store: Store, configured: Sequence[str]) -> None:
        self._store = store
        self._configured = configured

    async def all(self) -> list[dict[str, Any]]:
        """All of them, the default first. Raises Unavailable."""
        rows = await self._store.rows("processors_health", {"kept_s": limits.PROCESSOR_HEALTH_KEPT_S})
        seen = {row[0]: _health(row) for row in rows}
        total = sum(_outcomes(seen[name]) for name in self._configured if name in seen)
        return [
            {
                "object": "processor",
                "name": name,
                "adapter": adapter_of(name),
                "share_bps": _outcomes(seen[name]) * _BPS // total if name in seen and total else None,
                "health": seen.get(name),
            }
            for name in self._configured
        ]


def _health(row: tuple[Any, ...]) -> dict[str, Any]:
    _, as_of, window_s, breaker, *counts = row
    found = {"breaker": breaker, "as_of": rendering.timestamp(as_of), "window_s": window_s}
    return found | dict(zip(_COUNTS, counts, strict=True))


def _outcomes(health: dict[str, Any]) -> int:
    return sum(health[name] for name in _COUNTS)
