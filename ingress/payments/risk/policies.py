"""Versions of policies: published by operators, one after another, never changed. Generic over the kind.

The version that the publisher expects is the identity of the call: of two who publish at once one hears
``version_conflict``, and who sends the same again after a lost answer hears the same version again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from schemas import errors, rendering
from schemas.payments import limits
from schemas.payments.policies import kinds

if TYPE_CHECKING:
    from collections.abc import Collection

    from ingress.http.store import Store

_FIELDS: Final = ("version", "state", "author", "created_at", "body")
_VERSION: Final = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_EXPECTED: Final = "expected_version"
_CONFLICT: Final = "conflict_"
_EARLY: Final = "early"
_PROPOSED: Final = "proposed"
_TOO_EARLY: Final = f"must be at least {limits.FEE_LEAD_S} seconds from now"


class PolicyVersions:
    """Publishes and reads, over a store whose commits wait for the disk."""

    def __init__(self, store: Store, processors: Collection[str]) -> None:
        self._store = store
        self._processors = processors

    async def publish(self, kind: str, payload: dict[str, Any], author: str) -> tuple[dict[str, Any] | None, bool]:
        """The version, None while a second person is missing; and whether the author had said the same before.

        Raises InvalidCommand or VersionConflict.
        """
        expected = payload.get(_EXPECTED)
        if type(expected) is not int or not 0 <= expected < limits.POLICY_VERSION_MAX:
            reason = "must be the number of the active version, 0 when there is none"
            raise errors.InvalidCommand([{"field": _EXPECTED, "reason": reason}])
        document = {name: value for name, value in payload.items() if name != _EXPECTED}
        body = kinds.canonical(kind, document, self._processors)
        parameters = {"kind": kind, "expected": expected, "body": body, "author": author}
        ((word, was_proposed),) = await self._store.rows("policies_publish", parameters)
        if word.startswith(_CONFLICT):
            raise errors.VersionConflict(current_version=int(word.removeprefix(_CONFLICT)))
        if word == _EARLY:
            raise errors.InvalidCommand([{"field": "effective_at", "reason": _TOO_EARLY}])
        if word == _PROPOSED:
            return None, was_proposed
        return await self.get(kind, str(expected + 1)), word == "known"

    async def proposed(self, kind: str) -> dict[str, Any]:
        """What waits for a second person, oldest first."""
        found = await self._store.records("policies_proposed", {"kind": kind, "limit": limits.POLICIES_PROPOSED_MAX})
        return {"data": [_render_proposal(kind, row) for row in found]}

    async def get(self, kind: str, version: str) -> dict[str, Any]:
        """One version. Raises NotFound."""
        number = _number(version)
        rows = await self._store.rows("policies_by_version", {"kind": kind, "version": number}) if number else []
        if not rows:
            raise errors.NotFound
        return _render(kind, rows[0])

    async def page(self, kind: str, limit: int, cursor: str | None) -> dict[str, Any]:
        """Versions, newest first; the cursor is the last version of the page before. Raises InvalidCommand."""
        below = limits.POLICY_VERSION_MAX if cursor is None else _number(cursor)
        if not below:
            raise errors.InvalidCommand([{"field": "cursor", "reason": "must be a cursor as we gave it"}])
        rows = await self._store.rows("policies_newest", {"kind": kind, "below": below, "limit": limit + 1})
        data = [_render(kind, row) for row in rows[:limit]]
        has_more = len(rows) > limit
        return {"data": data, "has_more": has_more, "next_cursor": str(data[-1]["version"]) if has_more else None}


def _number(text: str) -> int:
    """A version as it stands in a route or cursor; 0 for what is none."""
    return int(text) if _VERSION.fullmatch(text) else 0


def _render_proposal(kind: str, row: dict[str, Any]) -> dict[str, Any]:
    document = msgspec.Raw(row.pop("body").encode())
    proposed_at = rendering.timestamp(row.pop("proposed_at"))
    return {"object": f"{kind}_policy_proposal", **row, "proposed_at": proposed_at, "policy": document}


def _render(kind: str, row: tuple[Any, ...]) -> dict[str, Any]:
    found = dict(zip(_FIELDS, row, strict=True))
    document = msgspec.Raw(found.pop("body").encode())
    created_at = rendering.timestamp(found.pop("created_at"))
    return {"object": f"{kind}_policy", **found, "created_at": created_at, "policy": document}
