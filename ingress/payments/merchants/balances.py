"""``GET /v1/balance``: what the ledger owes a merchant, now or at a past time, in minor units of each currency.

The accounts are credit-normal, so a balance below zero is what the merchant owes us. A past balance is the
present one less everything posted later: both come from one snapshot, so no commit can fall between them.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from schemas.payments import limits

if TYPE_CHECKING:
    from ingress.http.store import Store

KINDS: Final = ("pending", "available", "reserved")
#: what each ledger account counts as
_ACCOUNTS: Final = {
    "merchant_pending": "pending",
    "merchant_available": "available",
    "merchant_dispute_hold": "reserved",  # by a dispute
    "merchant_reserved": "reserved",  # by an operator
}


class Balances:
    """Reads balances. Questions about the past may sum many lines: few of them run at once, the others wait."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._past = asyncio.Semaphore(limits.PAST_BALANCES_RUNNING_MAX)

    async def document(self, merchant: str, at: int | None) -> bytes:
        """The balances as JSON, at a time in microseconds or now. Raises Unavailable when the database is out."""
        if at is None:
            rows = await self._rows(merchant, None)
        else:
            async with self._past:
                rows = await self._rows(merchant, at)
        found: dict[str, dict[str, Any]] = {}
        for kind, currency, balance in rows:
            row = found.setdefault(currency, {"currency": currency, **dict.fromkeys(KINDS, 0)})
            row[kind] += int(balance)
        # The standard library's encoder: a sum may have more than 64 bits.
        return json.dumps({"data": [found[currency] for currency in sorted(found)]}).encode()

    async def _rows(self, merchant: str, at: int | None) -> list[tuple[Any, ...]]:
        prefixes = [f"{account}:{merchant}:" for account in _ACCOUNTS]
        return await self._store.rows("balances", {"kinds": list(_ACCOUNTS.values()), "prefixes": prefixes, "at": at})
