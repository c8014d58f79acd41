"""Closing cases that need no repair: with a reason, by two persons where money is concerned, and the way back.

Everything is decided by functions of the database, in one transaction with its audit row; nothing closes by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ingress.operators import decisions
from schemas import errors, identity, rendering
from schemas.payments import case_closing, limits, repair

if TYPE_CHECKING:
    from ingress.commands.envelope import Fields
    from ingress.http.store import Store

_TIMES: Final = ("proposed_at", "decided_at", "reopened_at")
#: why a case cannot be closed, or opened again, by the database's word
_CONFLICTS: Final = {
    "review_waits": "Its payment waits for a review, which closes the case.",
    "attempt_open": "Its attempt is still open: ask the processor again, or propose the outcome.",
    "payout_pending": "Its payout is still pending: record what the bank did with it.",
    "money_waits": "Money has waited on a clearing account for longer than the horizon, and no other case says so.",
    "resolved_otherwise": "It was not closed by a person; what a repair did is undone by reversing it.",
    "came_up_anew": "The same came up anew: another case is open about it.",
}


class Closings:
    """Decisions about cases, over a store whose commits wait for the disk."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def propose(self, case_id: str, body: dict[str, Any], fields: Fields, author: str) -> dict[str, Any]:
        """The closing, once for each identity: in force at once where one person may, else a proposal for a second.

        Raises InvalidCommand, NotFound, StateConflict or KeyReused.
        """
        key, payload = decisions.identity_and_payload(body, fields)
        wanted = repair.read_decision(case_closing.CLOSING, payload)
        closing_id = identity.derived_id("cc", author, f"close {case_id}", key)
        parameters = {
            "id": closing_id,
            "case": case_id,
            "reason": wanted["reason"],
            "note": wanted["note"],
            "author": author,
            "hash": identity.request_hash("close", case_id, wanted),
            "horizon_days": limits.SETTLEMENT_HORIZON_DAYS,
        }
        decisions.require(await self._store.word("closings_propose", parameters), "proposed", _CONFLICTS)
        return await self.get(case_id, closing_id)

    async def approve(self, case_id: str, closing_id: str, approver: str) -> dict[str, Any]:
        """The closing, in force. Raises FourEyesRequired, NotFound or StateConflict."""
        parameters = {
            "id": closing_id,
            "case": case_id,
            "actor": approver,
            "horizon_days": limits.SETTLEMENT_HORIZON_DAYS,
        }
        decisions.require(await self._store.word("closings_approve", parameters), "closed", _CONFLICTS)
        return await self.get(case_id, closing_id)

    async def reject(self, case_id: str, closing_id: str, body: dict[str, Any], person: str) -> dict[str, Any]:
        """The closing, rejected; its case waits again. Its author may withdraw it so."""
        wanted = repair.read_decision(repair.DECISION, body)
        parameters = {"id": closing_id, "case": case_id, "actor": person, "note": wanted["note"]}
        decisions.require(await self._store.word("closings_reject", parameters), "rejected")
        return await self.get(case_id, closing_id)

    async def reopen(self, case_id: str, body: dict[str, Any], person: str) -> None:
        """The case waits again, as old as it was. Raises InvalidCommand, NotFound or StateConflict."""
        wanted = repair.read_decision(case_closing.REOPENING, body)
        parameters = {"case": case_id, "actor": person, "note": wanted["note"]}
        decisions.require(await self._store.word("closings_reopen", parameters), "reopened", _CONFLICTS)

    async def get(self, case_id: str, closing_id: str) -> dict[str, Any]:
        """One closing of a case. Raises NotFound."""
        rows = await self._store.records("closings_of_case", {"case": case_id, "id": closing_id, "limit": 1})
        if not rows:
            raise errors.NotFound
        return _render(rows[0])

    async def of_case(self, case_id: str) -> dict[str, Any]:
        """The closings of a case, newest first. Raises NotFound."""
        if not await self._store.rows("repairs_case", {"id": case_id}):
            raise errors.NotFound
        wanted = {"case": case_id, "id": None, "limit": limits.REPAIRS_OF_CASE_MAX}
        return {"data": [_render(row) for row in await self._store.records("closings_of_case", wanted)]}


def _render(found: dict[str, Any]) -> dict[str, Any]:
    times = {name: None if found[name] is None else rendering.timestamp(found[name]) for name in _TIMES}
    return {**found, **times, "object": "case_closing"}
