"""``expand[]``: a read that takes along what it names by id, so that a caller need not ask again.

What is expanded belongs to the same payment, so who may read the one may read the other. An expanded answer has no
ETag: the version is the resource's own, and what stands in it may change without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ingress import limits as ingress_limits
from ingress.payments.filters import Filters
from schemas import errors, rendering
from schemas.payments import limits as payments_limits

if TYPE_CHECKING:
    from starlette.requests import Request

    from ingress.http.store import Store
    from ingress.payments.resources import Resources
    from schemas.payments import records

PARAMETER: Final = "expand[]"
#: what each kind of resource can take along
ALLOWED: Final = {
    "payment_intents": ("latest_attempt", "refunds", "disputes"),
    "refunds": ("payment_intent",),
    "disputes": ("payment_intent",),
}
_ATTEMPT: Final = (
    *("attempt", "kind", "status", "processor", "amount", "currency", "provider_ref", "error_code"),
    *("created_at", "updated_at"),
)
Json = dict[str, Any]


def asked(request: Request, kind: str) -> frozenset[str]:
    """What a read of this kind shall take along. Raises InvalidCommand for what it cannot."""
    values = request.query_params.getlist(PARAMETER)
    allowed = ALLOWED.get(kind, ())
    if len(values) > payments_limits.EXPANSIONS_MAX or any(value not in allowed for value in values):
        reason = "must be of " + ", ".join(allowed) if allowed else "has no meaning here"
        raise errors.InvalidCommand([{"field": PARAMETER, "reason": reason}], f"The query value {PARAMETER} {reason}.")
    return frozenset(values)


class Expansions:
    """Takes along for one process."""

    def __init__(
        self,
        store: Store,
        intents: Resources[records.PaymentIntent],
        refunds: Resources[records.Refund],
        disputes: Resources[records.Dispute],
    ) -> None:
        self._store = store
        self._intents = intents
        self._parts: dict[str, Resources[Any]] = {"refunds": refunds, "disputes": disputes}

    async def expanded(self, document: Json, merchant: str, wanted: frozenset[str]) -> Json:
        """The document with what was asked for in the place of its id; lists have their first page."""
        found = dict(document)
        for name in sorted(wanted):
            if name == "payment_intent":
                found[name] = self._intents.kind.render(await self._intents.get(merchant, document[name]))
            elif name == "latest_attempt":
                found[name] = await self._attempt(document["id"], document[name])
            else:
                first = await self._parts[name].page(
                    merchant,
                    ingress_limits.PAGE_LIMIT_DEFAULT,
                    None,
                    Filters(leading={"payment_intent": document["id"]}),
                )
                found[name] = {"data": first["data"], "has_more": first["has_more"]}
        return found

    async def _attempt(self, intent_id: str, number: int) -> Json | None:
        """The attempt, or None when there was none yet."""
        rows = await self._store.rows("attempts_by_number", {"intent_id": intent_id, "attempt": number})
        if not rows:
            return None
        attempt = dict(zip(_ATTEMPT, rows[0], strict=True))
        times = {name: rendering.timestamp(attempt[name]) for name in ("created_at", "updated_at")}
        return {"object": "processor_attempt", **attempt, **times}
