"""A form by which a person decides about a case or a repair: who it is, what it says, where the browser goes next."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from ingress.commands import calling
from ingress.console import visit as visits
from ingress.http.parts import Parts, parts_of
from ingress.operators import operating
from schemas import errors
from schemas.fields.currency import is_currency, parse_minor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from starlette.requests import Request

    from ingress.payments.repair.proposals import Proposals


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person sent with a form of ours."""

    parts: Parts
    person: str
    fields: Mapping[str, str]

    def word(self, name: str) -> str:
        """A field without the blanks around it; a missing one is empty."""
        return self.fields.get(name, "").strip()

    def words(self, names: Iterable[str]) -> dict[str, Any]:
        """The fields that are not empty."""
        return {name: word for name in names if (word := self.word(name))}

    def payload(self, names: Iterable[str]) -> dict[str, Any]:
        """What is proposed: empty fields are silent, the amount is a decimal of its currency. Raises InvalidCommand."""
        payload = self.words(names) | {"note": self.word("note")}
        if amount := self.word("amount"):
            payload["amount"] = _minor(amount, payload.get("currency", ""))
        return payload

    def proposal(self, payload: dict[str, Any]) -> dict[str, Any]:
        """An envelope; the form's own key makes a second press the same proposal."""
        return {"idempotency_key": self.fields.get("key", ""), "payload": payload}


@asynccontextmanager
async def deciding(request: Request, action: str, audited_id: str, *ids: str) -> AsyncIterator[Decision]:
    """As ``visit.deciding``, by a person, about what has these ids. Raises Forbidden and NotFound too."""
    async with visits.deciding(request, action, audited_id) as (visit, fields):
        for each in (audited_id, *ids):
            calling.require_id(each)
        yield Decision(parts_of(request), operating.person(visit.who.caller()), fields)


async def approve(
    request: Request, proposals: type[Proposals], action: str, proposal_id: str, case_id: str | None = None
) -> None:
    """Approves a proposal as another person than the author. Raises as ``deciding`` and ``Proposals.approve``."""
    async with deciding(request, action, *proposals.kind.ids(proposal_id, case_id)) as form:
        await form.parts.get(proposals).approve(proposal_id, form.person, case_id)


async def reject(
    request: Request, proposals: type[Proposals], action: str, proposal_id: str, case_id: str | None = None
) -> None:
    """Rejects a proposal, or withdraws one's own. Raises as ``deciding`` and ``Proposals.reject``."""
    async with deciding(request, action, *proposals.kind.ids(proposal_id, case_id)) as form:
        await form.parts.get(proposals).reject(proposal_id, form.words(["note"]), form.person, case_id)


def to(kind: str, object_id: str) -> Response:
    """Back to the page of a case, a repair or a queue."""
    return visits.go(f"{visits.HOME}/{kind}/{object_id}")


def _minor(amount: str, currency: str) -> int:
    if not is_currency(currency):
        raise errors.InvalidCommand([{"field": "currency", "reason": "must be a currency, such as USD"}])
    try:
        return parse_minor(amount, currency)
    except ValueError as error:
        raise errors.InvalidCommand([{"field": "amount", "reason": str(error)}]) from error
