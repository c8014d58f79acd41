"""``GET /v1/recovery_checkpoints``: the named positions that operators recover from, for tokens with their scope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from schemas import rendering

if TYPE_CHECKING:
    from ingress.cursors import Cursors
    from ingress.store import Store

LIST: Final = "recovery_checkpoints"
SCOPE: Final = "operator"
_BEFORE_ALL: Final = (253_402_300_799_000_000, "\x7f")  # newer than any: the end of the year 9999
_FIELDS: Final = (
    "name",
    "scenario",
    "operation_id",
    "aggregate_key",
    "last_durable_version",
    "projection_checkpoint",
    "retry_policy",
    "reconciliation_status",
    "owner",
    "created_at",
)


class Checkpoints:
    """Reads the table of the operators."""

    def __init__(self, store: Store, cursors: Cursors) -> None:
        self._store = store
        self._cursors = cursors

    async def page(self, caller: str, limit: int, cursor: str | None) -> dict[str, Any]:
        """One page, newest first, and the cursor of the next one."""
        place = self._cursors.read(caller, LIST, cursor, tuple[int, str]) if cursor else _BEFORE_ALL
        parameters = {"created_at": place[0], "name": place[1], "limit": limit + 1}
        rows = [dict(zip(_FIELDS, row, strict=True)) for row in await self._store.rows("checkpoints", parameters)]
        shown, has_more = rows[:limit], len(rows) > limit
        last = (shown[-1]["created_at"], shown[-1]["name"]) if has_more else None
        for row in shown:
            row["created_at"] = rendering.timestamp(row["created_at"])
        return {
            "data": shown,
            "has_more": has_more,
            "next_cursor": self._cursors.write(caller, LIST, last) if last else None,
        }
