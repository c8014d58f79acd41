"""``GET /v1/cases``: what waits for a person, with its evidence, for tokens with the operator's scope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingress.http.pages import NewestFirst
from schemas import errors, rendering

if TYPE_CHECKING:
    from ingress.http.cursors import Cursors
    from ingress.http.pages import Place
    from ingress.http.store import Store

LIST: Final = "cases"
STATES: Final = ("open", "proposed", "resolved")
_FIELDS: Final = (
    "id",
    "kind",
    "reference",
    "processor",
    "state",
    "evidence",
    "opened_at",
    "resolved_at",
    "resolved_by",
    "note",
)


class Cases:
    """Reads the cases; who resolves them does so elsewhere, with a second person."""

    def __init__(self, store: Store, cursors: Cursors) -> None:
        self._store = store
        self._pages = NewestFirst(store, cursors)

    async def page(
        self, caller: str, limit: int, cursor: str | None, state: str | None, kind: str | None
    ) -> dict[str, Any]:
        """One page, newest first, of one state and kind when they are asked for."""
        filters = {"state": state, "kind": kind}
        return await self._pages.page("cases_newest", LIST, caller, filters, limit, cursor, _read, _place, _render)

    async def get(self, case_id: str) -> dict[str, Any]:
        """One case. Raises NotFound."""
        rows = await self._store.rows("cases_by_id", {"id": case_id})
        if not rows:
            raise errors.NotFound
        return _render(_read(rows[0]))


def _read(row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(_FIELDS, row, strict=True))


def _place(case: dict[str, Any]) -> Place:
    return case["opened_at"], case["id"]


def _render(case: dict[str, Any]) -> dict[str, Any]:
    return {
        **case,
        "object": "case",
        "evidence": msgspec.Raw(case["evidence"].encode()),  # as it was stored, whatever numbers are in it
        **rendering.timestamps(case, ("opened_at", "resolved_at")),
    }
