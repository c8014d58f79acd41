"""A payment method that is a card token must be the caller's own. The vault says whose it is, by a view.

If this let another merchant's token through, the vault would still not open it; the payment would only fail later.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from ingress.http.coalescer import Coalescer
from schemas import errors, identity
from schemas.payments import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ingress.http.store import Store

Ownership = tuple[str, str]  # merchant, token
_FIELD: Final = "payment_method"
#: the same for another's token and for none: nobody learns which tokens exist
_REASON: Final = "is no token of yours; make one at the vault"


class PaymentMethods:
    """Looks tokens up, many in one query; what was found holds for a bounded time. Raises Unavailable."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._known: OrderedDict[Ownership, float] = OrderedDict()  # until when
        self._coalescer: Coalescer[Ownership, bool] = Coalescer(
            self._read,
            batch_max=limits.OWN_TOKENS_LOOKUPS_MAX,
            running_max=limits.OWN_TOKENS_LOOKUPS_RUNNING_MAX,
        )

    async def refusals(
        self, merchant: str, payloads: Sequence[Mapping[str, Any]]
    ) -> list[errors.InvalidCommand | None]:
        """For each payload, in order, why its payment method cannot be used; None where it can, or has none."""
        tokens = [payload.get(_FIELD) for payload in payloads]
        asked = {token for token in tokens if isinstance(token, str) and identity.is_card_token(token)}
        if not asked:
            return [None] * len(tokens)
        unknown = [token for token in asked if not self._knows((merchant, token))]
        owned = await asyncio.gather(*(self._coalescer.ask((merchant, token)) for token in unknown))
        foreign = {token for token, is_own in zip(unknown, owned, strict=True) if not is_own}
        return [_refusal() if token in foreign else None for token in tokens]

    async def require_own(self, merchant: str, payload: Mapping[str, Any]) -> None:
        """Raises InvalidCommand when the payload's payment method is a card token that is not the merchant's."""
        (refusal,) = await self.refusals(merchant, [payload])
        if refusal is not None:
            raise refusal

    async def _read(self, questions: Sequence[Ownership]) -> list[bool]:
        merchants, tokens = zip(*questions, strict=True)
        parameters = {"ns": list(range(len(questions))), "merchants": list(merchants), "tokens": list(tokens)}
        own = {n for (n,) in await self._store.rows("own_tokens", parameters)}
        for n in own:
            self._remember(questions[n])
        return [n in own for n in range(len(questions))]

    def _knows(self, ownership: Ownership) -> bool:
        return self._known.get(ownership, float("-inf")) > self._clock()

    def _remember(self, ownership: Ownership) -> None:
        self._known[ownership] = self._clock() + limits.OWN_TOKENS_CACHED_S
        self._known.move_to_end(ownership)
        if len(self._known) > limits.OWN_TOKENS_CACHED_MAX:
            self._known.popitem(last=False)


def _refusal() -> errors.InvalidCommand:
    return errors.InvalidCommand([{"field": f"payload.{_FIELD}", "reason": _REASON}])
