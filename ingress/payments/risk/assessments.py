"""What the risk rules and operators said of a payment's confirms: the explanations, for operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from schemas import errors, rendering
from schemas.payments import limits

if TYPE_CHECKING:
    from ingress.http.store import Store

_FIELDS: Final = ("attempt", "decided_by", "outcome", "score", "policy_version", "reasons", "created_at")


class Assessments:
    """Reads assessments; owners write them, in the commits that they decided."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def of_intent(self, intent_id: str) -> dict[str, Any]:
        """All of one payment, oldest first; none for a payment that no policy looked at. Raises NotFound."""
        if not await self._store.rows("intents_exists", {"id": intent_id}):
            raise errors.NotFound
        parameters = {"id": intent_id, "limit": limits.RISK_ASSESSMENTS_LISTED_MAX}
        rows = await self._store.rows("assessments_of_intent", parameters)
        return {"data": [_render(dict(zip(_FIELDS, row, strict=True))) for row in rows]}


def _render(found: dict[str, Any]) -> dict[str, Any]:
    return {
        "object": "risk_assessment",
        **found,
        "reasons": msgspec.Raw(found["reasons"].encode()),
        "created_at": rendering.timestamp(found["created_at"]),
    }
