"""Attempts that a person has: the processor is asked again, or two persons take over an outcome, with evidence.

The approval is durable before the fact is sent to the payment's owner, who decides it as any other; whatever dies after
it, the same fact is sent again (by the approver's retry, or by the loop that finishes repairs) and has one effect.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

from ingress import limits as ingress_limits
from ingress.operators import decisions
from schemas import errors, identity, rendering
from schemas.payments import attempt_outcome, repair
from schemas.payments import limits as payments_limits

if TYPE_CHECKING:
    from ingress.commands.envelope import Fields
    from ingress.commands.exchange import Exchange
    from ingress.http.store import Store

_TIMES: Final = ("proposed_at", "decided_at", "recorded_at")
_CONFLICTS: Final = {
    "of_no_attempt": "The case is about no attempt that a processor has to answer for.",
    "attempt_done": "The attempt has come to its end.",
    "attempt_reported": "The processor's answer is on its way to the owner; look again in a moment.",
    "attempt_leased": "The processor is being asked at this moment; look again.",
    "attempt_waiting": "The processor is still asked by its schedule; an outcome is taken over when that is past.",
}
_WRONG: Final = {
    "other_status": ("payload.status", "is no outcome of this kind of attempt"),
    "other_amount": ("payload.amount", "of a success, amount and currency must be those of the attempt"),
}


class Outcomes:
    """Decisions about attempts, over a store whose commits wait for the disk."""

    def __init__(self, store: Store, exchange: Exchange) -> None:
        self._store = store
        self._exchange = exchange

    async def ask(self, operation_id: str, body: dict[str, Any], person: str) -> None:
        """A worker asks the processor next. Raises InvalidCommand, NotFound or StateConflict."""
        wanted = repair.read_decision(attempt_outcome.ASK, body)
        parameters = {"operation": operation_id, "actor": person, "note": wanted["note"]}
        decisions.require(await self._store.word("attempts_ask", parameters), "asked", _CONFLICTS)

    async def propose(self, case_id: str, body: dict[str, Any], fields: Fields, author: str) -> dict[str, Any]:
        """The proposal, once for each identity. Raises InvalidCommand, NotFound, StateConflict or KeyReused."""
        key, payload = decisions.identity_and_payload(body, fields)
        wanted = repair.read_decision(attempt_outcome.OUTCOME, payload)
        proposal_id = identity.derived_id(attempt_outcome.PREFIX.rstrip("_"), author, f"outcome {case_id}", key)
        parameters = {
            "id": proposal_id,
            "case": case_id,
            "fact": json.dumps({name: value for name, value in wanted.items() if name != "note"}),
            "note": wanted["note"],
            "author": author,
            "hash": identity.request_hash("outcome", case_id, wanted),
        }
        word = await self._store.word("outcomes_propose", parameters)
        if word in _WRONG:
            field, reason = _WRONG[word]
            raise errors.InvalidCommand([{"field": field, "reason": reason}])
        decisions.require(word, "proposed", _CONFLICTS)
        return await self.get(case_id, proposal_id)

    async def approve(self, case_id: str, proposal_id: str, approver: str) -> dict[str, Any]:
        """The proposal, recorded; or approved, when the owner has not decided in time. Raises FourEyesRequired."""
        await self.get(case_id, proposal_id)
        decisions.require(
            await self._store.word("outcomes_approve", {"id": proposal_id, "actor": approver}), "approved"
        )
        found = await self.get(case_id, proposal_id)
        if found["state"] == "approved":
            await self._tell(found)
        return await self.get(case_id, proposal_id)

    async def reject(self, case_id: str, proposal_id: str, body: dict[str, Any], person: str) -> dict[str, Any]:
        """The proposal, rejected; its case waits again. Its author may withdraw it so."""
        wanted = repair.read_decision(repair.DECISION, body)
        await self.get(case_id, proposal_id)
        parameters = {"id": proposal_id, "actor": person, "note": wanted["note"]}
        decisions.require(await self._store.word("outcomes_reject", parameters), "rejected")
        return await self.get(case_id, proposal_id)

    async def get(self, case_id: str, proposal_id: str) -> dict[str, Any]:
        """One proposal of a case. Raises NotFound."""
        rows = await self._store.records("outcomes_of_case", {"case": case_id, "id": proposal_id, "limit": 1})
        if not rows:
            raise errors.NotFound
        return _render(rows[0])

    async def of_case(self, case_id: str) -> dict[str, Any]:
        """The outcomes that were proposed for a case, newest first. Raises NotFound."""
        if not await self._store.rows("repairs_case", {"id": case_id}):
            raise errors.NotFound
        wanted = {"case": case_id, "id": None, "limit": payments_limits.REPAIRS_OF_CASE_MAX}
        return {"data": [_render(row) for row in await self._store.records("outcomes_of_case", wanted)]}

    async def _tell(self, found: dict[str, Any]) -> None:
        """Sends the fact and takes over what became of it, as far as that is known in time."""
        command = attempt_outcome.command_of(
            found["id"],
            found["operation_id"],
            found["payment_intent"],
            found["attempt"],
            found["processor"],
            found["fact"],
            time.time_ns() // 1_000,
        )
        try:
            await self._exchange.carry_out(
                [command], ingress_limits.RESULT_WAIT_DEFAULT_S, only_acknowledged=False, bulk=False
            )
        except (errors.Unavailable, errors.QuotaExceeded):
            return  # it stays approved, which is what the answer says
        await self._store.word("outcomes_settle", {"id": found["id"]})


def _render(found: dict[str, Any]) -> dict[str, Any]:
    times = {name: None if found[name] is None else rendering.timestamp(found[name]) for name in _TIMES}
    return {**found, **times, "object": "attempt_outcome", "fact": json.loads(found["fact"])}
