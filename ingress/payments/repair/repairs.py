"""Repairs of the ledger: proposed by one person, approved by another, then posted once. Nothing here is ever automatic.

A person is a token's subject. The approval is durable before the command is sent; whatever dies after it, the same
command is sent again (by the approver's retry or ``millrace repair resume``) and its identity has one effect.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingress.operators import decisions
from ingress.payments.repair.proposals import Effect, Kind, Proposals, identified
from schemas import errors, identity
from schemas.operators import decision_note
from schemas.payments import repair

if TYPE_CHECKING:
    from ingress.commands.envelope_fields import Fields
    from ingress.payments.repair.proposals import Decided, Found
    from schemas.records import Command

_REVIEW: Final = "risk_review"
_PREFIX: Final = "rp"


def _journal(found: Found, now_us: int) -> Command:
    return repair.command_of(
        found["id"],
        found["template"],
        json.loads(found["entries"]),
        found["note"],
        found["author"],
        found["decided_by"],
        now_us,
    )


class Repairs(Proposals):
    """Proposals that post to the ledger; each is found by its own id, whatever its case."""

    kind = Kind(
        name="repair",
        times=("proposed_at", "decided_at", "posted_at"),
        one="repairs_by_id",
        approve="repairs_approve",
        reject="repairs_reject",
        effect=Effect(_journal, "repairs_settle"),
    )

    async def propose(self, case_id: str, body: dict[str, Any], fields: Fields, author: str) -> Decided:
        """The proposal, once for each identity. Raises InvalidCommand, NotFound, StateConflict or KeyReused."""
        key, payload = decisions.identity_and_payload(body, fields)
        wanted = repair.read_proposal(payload)
        rows = await self._store.rows("repairs_case", {"id": case_id})
        if not rows:
            raise errors.NotFound
        processor, currency, kind = rows[0]
        if kind == _REVIEW:
            raise errors.StateConflict("The case is closed by the review of its payment; no money is to be repaired.")
        entries = repair.entries_of(wanted, processor, await self._mirrored(wanted["reference"]))
        repair.require_sound(entries, currency)
        made = identified(_PREFIX, "propose", case_id, author, key, wanted)
        template = wanted["template"] or "entries"
        parameters = {**made, "case": case_id, "template": template, "entries": json.dumps(entries)}
        known = decisions.require(await self._store.word("repairs_propose", parameters), "proposed")
        return await self.get(made["id"]), known

    async def reverse(self, repair_id: str, body: dict[str, Any], fields: Fields, author: str) -> Decided:
        """A new proposal with the entries of a posted one, mirrored. Raises as ``propose``."""
        key, payload = decisions.identity_and_payload(body, fields)
        wanted = decision_note.read_decision(decision_note.REQUIRED, payload)
        made = identified(_PREFIX, "reverse", repair_id, author, key, wanted)
        case_id = identity.derived_id("case", author, f"reverse {repair_id}", key)
        parameters = {**made, "repair": repair_id, "case": case_id}
        known = decisions.require(await self._store.word("repairs_reverse", parameters), "proposed")
        return await self.get(made["id"]), known

    async def of_case(self, case_id: str) -> dict[str, Any]:
        """The proposals of a case, newest first. Raises NotFound."""
        return await self._of_case("repairs_of_case", case_id)

    async def _mirrored(self, reference: str | None) -> list[repair.Entry] | None:
        if reference is None:
            return None
        ((text,),) = await self._store.rows("repairs_mirror", {"reference": reference})
        return None if text is None else json.loads(text)

    def _rendered(self, found: Found) -> dict[str, Any]:
        return super()._rendered(found) | {
            "entries": msgspec.Raw(found["entries"].encode()),
            "preview": msgspec.Raw(found["preview"].encode()),
            "txn_id": None
            if found["txn_id"] is None
            else str(found["txn_id"]),  # may pass what a JSON number holds exactly
            "reference": repair.reference_of(found["id"]),
        }
