"""Closing cases that need no repair: with a reason, by two persons where money is concerned, and the way back.

Everything is decided by functions of the database, in one transaction with its audit row; nothing closes by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ingress.operators import decisions
from ingress.payments.repair.proposals import Kind, Proposals, identified
from schemas.operators import decision_note
from schemas.payments import case_closing, limits

if TYPE_CHECKING:
    from ingress.commands.envelope_fields import Fields
    from ingress.payments.repair.proposals import Decided

_HORIZON: Final = {"horizon_days": limits.SETTLEMENT_HORIZON_DAYS}
#: why a case cannot be closed, or opened again, by the database's word
_CONFLICTS: Final = {
    "review_waits": "Its payment waits for a review, which closes the case.",
    "attempt_open": "Its attempt is still open: ask the processor again, or propose the outcome.",
    "payout_pending": "Its payout is still pending: record what the bank did with it.",
    "money_waits": "Money has waited on a clearing account for longer than the horizon, and no other case says so.",
    "resolved_otherwise": "It was not closed by a person; what a repair did is undone by reversing it.",
    "came_up_anew": "The same came up anew: another case is open about it.",
}


class Closings(Proposals):
    """Decisions about cases that end them without money."""

    kind = Kind(
        name="case_closing",
        times=("proposed_at", "decided_at", "reopened_at"),
        one="closings_of_case",
        approve="closings_approve",
        reject="closings_reject",
        in_force="closed",
        bounds=_HORIZON,
        conflicts=_CONFLICTS,
        audits_case=True,
    )

    async def propose(self, case_id: str, body: dict[str, Any], fields: Fields, author: str) -> Decided:
        """The closing, once for each identity: in force at once where one person may, else a proposal for a second.

        Raises InvalidCommand, NotFound, StateConflict or KeyReused.
        """
        key, payload = decisions.identity_and_payload(body, fields)
        wanted = decision_note.read_decision(case_closing.CLOSING, payload)
        made = identified("cc", "close", case_id, author, key, wanted)
        parameters = {**made, "case": case_id, "reason": wanted["reason"], **_HORIZON}
        known = decisions.require(await self._store.word("closings_propose", parameters), "proposed", _CONFLICTS)
        return await self.get(made["id"], case_id), known

    async def reopen(self, case_id: str, body: dict[str, Any], person: str) -> bool:
        """The case waits again, as old as it was; whether this person had opened it by the same words before.

        Raises InvalidCommand, NotFound or StateConflict.
        """
        wanted = decision_note.read_decision(case_closing.REOPENING, body)
        parameters = {"case": case_id, "actor": person, "note": wanted["note"]}
        return decisions.require(await self._store.word("closings_reopen", parameters), "reopened", _CONFLICTS)

    async def of_case(self, case_id: str) -> dict[str, Any]:
        """The closings of a case, newest first. Raises NotFound."""
        return await self._of_case("closings_of_case", case_id)
