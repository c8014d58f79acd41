"""``GET /v1/recovery_checkpoints``: the named positions that operators recover from, for tokens with their scope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ingress.http.pages import NewestFirst
from schemas import rendering

if TYPE_CHECKING:
    from ingress.http.cursors import Cursors
    from ingress.http.pages import Place
    from ingress.http.store import Store

LIST: Final = "recovery_checkpoints"
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
        self._pages = NewestFirst(store, cursors)

    async def page(self, caller: str, limit: int, cursor: str | None) -> dict[str, Any]:
        """One page, newest first, and the cursor of the next one."""
        return await self._pages.page("checkpoints", LIST, caller, {}, limit, cursor, _read, _place, _render)


def _read(row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(_FIELDS, row, strict=True))


def _place(checkpoint: dict[str, Any]) -> Place:
    return checkpoint["created_at"], checkpoint["name"]


def _render(checkpoint: dict[str, Any]) -> dict[str, Any]:
    return checkpoint | {"created_at": rendering.timestamp(checkpoint["created_at"])}
