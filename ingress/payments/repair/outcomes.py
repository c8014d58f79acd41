"""Attempts that a person has: the processor is asked again, or two persons take over an outcome, with evidence.

Of a case of contradiction they may state that the processor did what it had refused: a fact of an identity of its own.

The approval is durable before the fact is sent to the payment's owner, who decides it as any other; whatever dies after
it, the same fact is sent again (by the approver's retry, or by the loop that finishes repairs) and has one effect.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ingress.operators import decisions
from ingress.payments.repair.proposals import Effect, Kind, Proposals, identified
from schemas import errors
from schemas.operators import decision_note
from schemas.payments import attempt_outcome, vouched

if TYPE_CHECKING:
    from ingress.commands.envelope_fields import Fields
    from ingress.payments.repair.proposals import Decided, Found
    from schemas.records import Command

_CONFLICTS: Final = {
    "of_no_attempt": "The case is about no attempt that a processor has to answer for, or did what it had refused.",
    "attempt_done": "The attempt has come to its end.",
    "attempt_reported": "The processor's answer is on its way to the owner; look again in a moment.",
    "attempt_leased": "The processor is being asked at this moment; look again.",
    "attempt_waiting": "The processor is still asked by its schedule; an outcome is taken over when that is past.",
}
_WRONG: Final = {
    "other_status": ("payload.status", "is no outcome of this kind of attempt"),
    "other_amount": ("payload.amount", "of a success, amount and currency must be those of the attempt"),
    "no_reference": ("payload.provider_ref", "is needed of a success: nothing can be done about such money without it"),
}


def _fact(found: Found, now_us: int) -> Command:
    return attempt_outcome.command_of(
        found["id"],
        found["operation_id"],
        found["payment_intent"],
        found["attempt"],
        found["processor"],
        json.loads(found["fact"]),
        now_us,
    )


class Outcomes(Proposals):
    """Decisions about attempts; an approved outcome is told to the payment's owner."""

    kind = Kind(
        name="attempt_outcome",
        times=("proposed_at", "decided_at", "recorded_at"),
        one="outcomes_of_case",
        approve="outcomes_approve",
        reject="outcomes_reject",
        effect=Effect(_fact, "outcomes_settle"),
    )

    async def ask(self, operation_id: str, body: dict[str, Any], person: str) -> None:
        """A worker asks the processor next. Raises InvalidCommand, NotFound or StateConflict."""
        wanted = decision_note.read_decision(attempt_outcome.ASK, body)
        parameters = {"operation": operation_id, "actor": person, "note": wanted["note"]}
        decisions.require(await self._store.word("attempts_ask", parameters), "asked", _CONFLICTS)

    async def propose(self, case_id: str, body: dict[str, Any], fields: Fields, author: str) -> Decided:
        """The proposal, once for each identity. Raises InvalidCommand, NotFound, StateConflict or KeyReused."""
        key, payload = decisions.identity_and_payload(body, fields)
        wanted = decision_note.read_decision(attempt_outcome.OUTCOME, payload)
        made = identified(vouched.PREFIX.rstrip("_"), "outcome", case_id, author, key, wanted)
        fact = json.dumps({name: value for name, value in wanted.items() if name != "note"})
        word = await self._store.word("outcomes_propose", {**made, "case": case_id, "fact": fact})
        if word in _WRONG:
            field, reason = _WRONG[word]
            raise errors.InvalidCommand([{"field": field, "reason": reason}])
        known = decisions.require(word, "proposed", _CONFLICTS)
        return await self.get(made["id"], case_id), known

    async def of_case(self, case_id: str) -> dict[str, Any]:
        """The outcomes that were proposed for a case, newest first. Raises NotFound."""
        return await self._of_case("outcomes_of_case", case_id)

    def _rendered(self, found: Found) -> dict[str, Any]:
        return super()._rendered(found) | {"fact": json.loads(found["fact"])}
