"""Payout destinations as their merchant sees them, and as staff does who pays there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from schemas import errors
from schemas.payments import rendering
from schemas.payments.records import PayoutDestination

if TYPE_CHECKING:
    from ingress.http.store import Store

_FIELDS: Final = PayoutDestination.__struct_fields__


class Destinations:
    """Reads destinations. Their numbers are read by staff alone; whoever registered one sees its end."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, merchant: str, destination_id: str) -> dict[str, Any]:
        """One of the merchant's. Raises NotFound."""
        found = await self._rows(merchant, destination_id)
        if not found:
            raise errors.NotFound
        return found[0][0]

    async def all_of(self, merchant: str) -> dict[str, Any]:
        """All that the merchant ever registered, newest first: few enough for one answer."""
        return {"data": [shown for shown, _ in await self._rows(merchant, None)]}

    async def to_pay(self, merchant: str) -> dict[str, Any]:
        """The same with the whole account numbers, for who sends the money."""
        return {"data": [shown | {"account_number": number} for shown, number in await self._rows(merchant, None)]}

    async def _rows(self, merchant: str, destination_id: str | None) -> list[tuple[dict[str, Any], str]]:
        rows = await self._store.rows("destinations_of_merchant", {"merchant": merchant, "id": destination_id})
        return [
            (rendering.payout_destination(PayoutDestination(**dict(zip(_FIELDS, values, strict=True)))), number)
            for *values, number in rows
        ]
