"""``GET /v1/accounts/{merchant}``: a merchant's account and what it holds, for operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from schemas import errors, identity
from schemas.payments import records, rendering

if TYPE_CHECKING:
    from ingress.http.store import Store
    from ingress.payments.merchants.balances import Balances


class Accounts:
    """Reads accounts. A merchant without one has done nothing that needs one: its account is active, at version 0."""

    def __init__(self, store: Store, balances: Balances) -> None:
        self._store = store
        self._balances = balances

    async def document(self, merchant: str) -> dict[str, Any]:
        """The account with its balances. Raises NotFound for a merchant that holds nothing and never had an account."""
        rows = await self._store.rows("accounts_of_merchant", {"merchant": merchant})
        balances = await self._balances.document(merchant, None)
        if rows:
            account = records.MerchantAccount(
                **dict(zip(records.MerchantAccount.__struct_fields__, rows[0], strict=True))
            )
            return rendering.merchant_account(account) | {"balances": msgspec.Raw(balances)}
        if not msgspec.json.decode(balances)["data"]:
            raise errors.NotFound
        return {
            "id": identity.account_id(merchant),
            "object": "merchant_account",
            "merchant_id": merchant,
            "state": "active",
            "frozen_reason": None,
            "version": 0,
            "created_at": None,
            "updated_at": None,
            "balances": msgspec.Raw(balances),
        }
