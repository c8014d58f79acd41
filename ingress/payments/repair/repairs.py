"""Repairs of the ledger: proposed by one person, approved by another, then posted once. Nothing here is ever automatic.

A person is a token's subject. The approval is durable before the command is sent; whatever dies after it, the same
command is sent again (by the approver's retry or ``millrace repair resume``) and its identity has one effect.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingress import limits as ingress_limits
from ingress.operators import decisions
from schemas import errors, identity, rendering
from schemas.payments import limits as payments_limits
from schemas.payments import repair

if TYPE_CHECKING:
    from ingress.commands.envelope import Fields
    from ingress.commands.exchange import Exchange
    from ingress.http.store import Store

_FIELDS: Final = (
    "id",
    "case_id",
    "template",
    "entries",
    "note",
    "author",
    "reverses",
    "reversed_by",
    "state",
    "preview",
    "proposed_at",
    "decided_by",
    "decided_at",
    "decision_note",
    "txn_id",
    "refusal",
    "posted_at",
)
_REVIEW: Final = "risk_review"


class Repairs:
    """Proposals and decisions of one process, over a store whose commits wait for the disk."""

    def __init__(self, store: Store, exchange: Exchange) -> None:
        self._store = store
        self._exchange = exchange

    async def propose(self, case_id: str, body: dict[str, Any], fields: Fields, author: str) -> dict[str, Any]:
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
        proposal_id = identity.derived_id("rp", author, f"propose {case_id}", key)
        parameters = {
            "id": proposal_id,
            "case": case_id,
            "template": wanted["template"] or "entries",
            "entries": json.dumps(entries),
            "note": wanted["note"],
            "author": author,
            "hash": identity.request_hash("propose", case_id, wanted),
        }
        decisions.require(await self._store.word("repairs_propose", parameters), "proposed")
        return await self.get(proposal_id)

    async def reverse(self, repair_id: str, body: dict[str, Any], fields: Fields, author: str) -> dict[str, Any]:
        """A new proposal with the entries of a posted one, mirrored. Raises as ``propose``."""
        key, payload = decisions.identity_and_payload(body, fields)
        wanted = repair.read_decision(repair.REVERSE, payload)
        proposal_id = identity.derived_id("rp", author, f"reverse {repair_id}", key)
        parameters = {
            "id": proposal_id,
            "repair": repair_id,
            "case": identity.derived_id("case", author, f"reverse {repair_id}", key),
            "note": wanted["note"],
            "author": author,
            "hash": identity.request_hash("reverse", repair_id, wanted),
        }
        decisions.require(await self._store.word("repairs_reverse", parameters), "proposed")
        return await self.get(proposal_id)

    async def approve(self, repair_id: str, approver: str) -> dict[str, Any]:
        """The proposal, posted; or approved, when its owner has not decided in time. Raises FourEyesRequired."""
        decisions.require(await self._store.word("repairs_approve", {"id": repair_id, "actor": approver}), "approved")
        found = await self._read(repair_id)
        if found["state"] == "approved":
            await self._post(found)
        return await self.get(repair_id)

    async def reject(self, repair_id: str, body: dict[str, Any], person: str) -> dict[str, Any]:
        """The proposal, rejected; its case waits again. Its author may withdraw it so."""
        wanted = repair.read_decision(repair.DECISION, body)
        decisions.require(
            await self._store.word("repairs_reject", {"id": repair_id, "actor": person, "note": wanted["note"]}),
            "rejected",
        )
        return await self.get(repair_id)

    async def get(self, repair_id: str) -> dict[str, Any]:
        """One proposal. Raises NotFound."""
        return _render(await self._read(repair_id))

    async def of_case(self, case_id: str) -> dict[str, Any]:
        """The proposals of a case, newest first. Raises NotFound."""
        if not await self._store.rows("repairs_case", {"id": case_id}):
            raise errors.NotFound
        rows = await self._store.rows("repairs_of_case", {"id": case_id, "limit": payments_limits.REPAIRS_OF_CASE_MAX})
        return {"data": [_render(dict(zip(_FIELDS, row, strict=True))) for row in rows]}

    async def _post(self, found: dict[str, Any]) -> None:
        """Sends the command and takes over what became of it, as far as that is known in time."""
        command = repair.command_of(
            found["id"],
            found["template"],
            json.loads(found["entries"]),
            found["note"],
            found["author"],
            found["decided_by"],
            time.time_ns() // 1_000,
        )
        try:
            await self._exchange.carry_out(
                [command], ingress_limits.RESULT_WAIT_DEFAULT_S, only_acknowledged=False, bulk=False
            )
        except (errors.Unavailable, errors.QuotaExceeded):
            return  # it stays approved, which is what the answer says
        await self._store.word("repairs_settle", {"id": found["id"]})

    async def _mirrored(self, reference: str | None) -> list[repair.Entry] | None:
        if reference is None:
            return None
        ((text,),) = await self._store.rows("repairs_mirror", {"reference": reference})
        return None if text is None else json.loads(text)

    async def _read(self, repair_id: str) -> dict[str, Any]:
        rows = await self._store.rows("repairs_by_id", {"id": repair_id})
        if not rows:
            raise errors.NotFound
        return dict(zip(_FIELDS, rows[0], strict=True))


def _render(found: dict[str, Any]) -> dict[str, Any]:
    times = {
        name: None if found[name] is None else rendering.timestamp(found[name])
        for name in ("proposed_at", "decided_at", "posted_at")
    }
    return {
        **found,
        **times,
        "object": "repair",
        "entries": msgspec.Raw(found["entries"].encode()),
        "preview": msgspec.Raw(found["preview"].encode()),
        "txn_id": None
        if found["txn_id"] is None
        else str(found["txn_id"]),  # may pass what a JSON number holds exactly
        "reference": repair.reference_of(found["id"]),
    }
