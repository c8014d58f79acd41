"""Two operators: they publish policies, review risks, freeze merchants, and repair what settlement left in suspense.

Nobody approves what he proposed; a rejected proposal changes nothing; a posted one can be taken back by two persons.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import httpx

from compose.proof import limits
from compose.proof.soak.payments.policies import REVIEWER, risk_document, routing_document
from compose.proof.soak.payments.settlements import Books, finding
from compose.proof.soak.waiting import Unexpected, answered, until

if TYPE_CHECKING:
    from collections.abc import Collection
    from types import TracebackType
    from typing import Self

    from reconciliation.payments.settlement.file_result import Discrepancy

OPERATORS: Final = (REVIEWER, "m_soak_bob")
_NOTE: Final = "the processor confirmed it in writing"


class Operators:
    """The two persons and their tokens."""

    def __init__(self, base_url: str, tokens: tuple[str, str], books: Books) -> None:
        self._books = books
        self._ann, self._bob = (
            httpx.AsyncClient(
                base_url=base_url,
                headers={"Authorization": f"Bearer {token}"},
                timeout=limits.SOAK_CALL_WAIT_S,
                trust_env=False,
            )
            for token in tokens
        )
        self.posted = 0
        self.rejected = 0
        self.reversed = 0
        self.reviewed = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._ann.aclose()
        await self._bob.aclose()

    async def publish(self, processors: Collection[str]) -> None:
        """The risk rules, and the routing of charges; both hold everywhere when this returns."""
        await self._post(self._ann, "/v1/risk/policies", risk_document() | {"expected_version": 0})
        await self._publish_routing(processors, version=0)
        await asyncio.sleep(limits.SOAK_FROZEN_SEEN_S)

    async def reroute(self, processors: Collection[str]) -> None:
        """Another version of the routing, in the middle of everything; known already when an answer was lost."""
        await self._publish_routing(processors, version=1)

    async def _publish_routing(self, processors: Collection[str], *, version: int) -> None:
        body = routing_document(processors, pins=version > 0) | {"expected_version": version}
        await answered(lambda: self._ann.post("/v1/routing/policies", json=body))
        answer = await answered(lambda: self._bob.post("/v1/routing/policies", json=body))
        newest = _content(await answered(lambda: self._ann.get("/v1/routing/policies")))["data"][0]["version"]
        if newest != version + 1:
            raise Unexpected(f"routing version {version + 1} was not published: {answer.text[:200]}")

    async def review(self, intent_id: str, decision: str) -> None:
        """Says yes or no to a payment that waits for it; the other one afterwards is refused."""
        path = f"/v1/payment_intents/{intent_id}/review"
        body = {"idempotency_key": f"{intent_id}-review", "payload": {"decision": decision, "note": _NOTE}}
        _content(await self._decided(self._ann, path, body))
        self.reviewed += 1
        other = {"idempotency_key": f"{intent_id}-other", "payload": {"decision": "reject"}}
        late = await self._decided(self._bob, path, other)
        if late.status_code != httpx.codes.CONFLICT:
            raise Unexpected(f"a second review of {intent_id} was answered {late.status_code}: {late.text[:200]}")

    async def freeze(self, merchant: str, turn: int, *, frozen: bool) -> None:
        """Stops a merchant, or lets it go on."""
        verb = "freeze" if frozen else "unfreeze"
        body = {"idempotency_key": f"{merchant}-{verb}-{turn}", "payload": {"reason": _NOTE}}
        _content(await self._decided(self._bob, f"/v1/accounts/{merchant}/{verb}", body))

    async def tell(self, payout_id: str, amount: int, currency: str, status: str) -> None:
        """Says what the bank did with a payout; the other person approves it."""
        said = {"status": status, "amount": amount, "currency": currency, "bank": "AT61", "reason": None}
        body = {"idempotency_key": f"{payout_id}-told", "payload": said}
        made = await self._post(self._ann, f"/v1/payouts/{payout_id}/outcome", body)
        _content(await self._decided(self._bob, f"/v1/money_proposals/{made['id']}/approve", None))

    async def repair(self) -> None:
        """Writes off one short line, rejects the same for one that is over, and takes a repair of a third one back."""
        by_class = {one.found_class: one for one in self._books.found if finding(one) not in self._books.repaired}
        if short := by_class.get("short"):
            await self._write_off(short, "loss")
            self._books.repaired.add(finding(short))
        if over := by_class.get("over"):
            made = await self._propose(over, "gain")
            await self._decide(self._bob, made, "reject", {"note": _NOTE}, until_state="rejected")
            self.rejected += 1
        if duplicate := by_class.get("duplicate"):
            made = await self._write_off(duplicate, "gain")
            back = await self._post(
                self._bob,
                f"/v1/repairs/{made}/reverse",
                {"idempotency_key": f"{made}-back", "payload": {"note": _NOTE}},
            )
            await self._decide(self._ann, str(back["id"]), "approve", None, until_state="posted")
            self.reversed += 1

    async def _write_off(self, one: Discrepancy, side: str) -> str:
        made = await self._propose(one, side)
        refused = await answered(lambda: self._ann.post(f"/v1/repairs/{made}/approve"))
        if refused.status_code != httpx.codes.FORBIDDEN:
            raise Unexpected(f"the author's own approval of {made} was answered {refused.status_code}")
        await self._decide(self._bob, made, "approve", None, until_state="posted")
        self.posted += 1
        return made

    async def _propose(self, one: Discrepancy, side: str) -> str:
        if one.case_id is None:
            raise Unexpected(f"{finding(one)} has no case")
        payload = {"template": "write_off", "amount": one.amount, "currency": one.currency, "side": side, "note": _NOTE}
        body = {"idempotency_key": f"{one.case_id}-{side}", "payload": payload}
        return str((await self._post(self._ann, f"/v1/cases/{one.case_id}/proposals", body))["id"])

    async def _decide(
        self, person: httpx.AsyncClient, made: str, verb: str, payload: dict[str, Any] | None, *, until_state: str
    ) -> None:
        async def decided() -> bool | None:
            answer = await answered(lambda: person.post(f"/v1/repairs/{made}/{verb}", json=payload))
            state = _content(answer)["state"] if not answer.is_error else await self._state(made)
            if answer.is_error and state != until_state:
                raise Unexpected(f"{verb} of {made} was answered {answer.status_code}: {answer.text[:200]}")
            return state == until_state or None

        await until(decided, f"{made} is not {until_state}")

    async def _decided(self, person: httpx.AsyncClient, path: str, body: dict[str, Any] | None) -> httpx.Response:
        """The answer once an owner has decided: the same identity asks again after a 202."""

        async def decided() -> httpx.Response | None:
            answer = await answered(lambda: person.post(path, json=body))
            return None if answer.status_code == httpx.codes.ACCEPTED else answer

        return await until(decided, f"{path} is not decided")

    async def _state(self, made: str) -> str:
        return str(_content(await answered(lambda: self._ann.get(f"/v1/repairs/{made}")))["state"])

    async def _post(self, person: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return _content(await answered(lambda: person.post(path, json=body)))


def _content(answer: httpx.Response) -> dict[str, Any]:
    if answer.is_error:
        raise Unexpected(f"{answer.request.url.path} answered {answer.status_code}: {answer.text[:200]}")
    return dict(answer.json())
