"""Operators deny access and lift that: one function of the database decides, in one transaction with its audit row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ingress import limits as ingress_limits
from schemas import errors, limits, rendering
from schemas.operators import access_denial

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingress.http.store import Store

_TIMES: Final = ("issued_before", "ends_at", "denied_at")
_DENIES: Final = frozenset(("name", "reason", "tokens_so_far"))
_LIFTS: Final = frozenset(("name", "reason"))


class AccessDenials:
    """Decides over a store whose commits wait for the disk. Every process follows within seconds."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def deny(self, kind: str, body: Mapping[str, Any], person: str) -> bool:
        """Refused from now on; whether it was as much before, which stays. Raises InvalidCommand, or StateConflict."""
        _require_fields(body, _DENIES)
        so_far = body.get("tokens_so_far", False)
        access_denial.require(kind, body.get("name"), body.get("reason"), so_far=so_far)
        said = {"kind": kind, "name": body["name"], "reason": body["reason"], "so_far": so_far, "actor": person}
        bounds = {"rows_max": limits.ACCESS_DENIED_MAX, "token_life_s": access_denial.TOKEN_LIFE_S}
        word = await self._store.word("access_deny", said | bounds)
        if word == "too_many":
            raise errors.StateConflict(f"{limits.ACCESS_DENIED_MAX} are denied already; lift those that need not be.")
        return word == "known"

    async def lift(self, kind: str, body: Mapping[str, Any], person: str) -> None:
        """Let in again. Raises InvalidCommand, or NotFound for who was not denied."""
        _require_fields(body, _LIFTS)
        access_denial.require(kind, body.get("name"), body.get("reason"))
        said = {"kind": kind, "name": body["name"], "reason": body["reason"], "actor": person}
        if await self._store.word("access_lift", said) == "not_found":
            raise errors.NotFound

    async def newest(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Who is denied now, newest first."""
        asked = {"kind": kind, "limit": ingress_limits.ACCESS_DENIED_SHOWN_MAX}
        return [_shown(row) for row in await self._store.records("access_denied_newest", asked)]


def _require_fields(body: Mapping[str, Any], known: frozenset[str]) -> None:
    if beyond := body.keys() - known:
        raise errors.InvalidCommand([{"field": min(beyond)[: limits.TEXT_LENGTH_MAX], "reason": "is not a field here"}])


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"object": "access_denial", **row, **rendering.timestamps(row, _TIMES)}
