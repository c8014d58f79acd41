"""What two persons decide about money, in one shape: one proposes, another approves, and either may reject.

The approval is durable before a command is sent; whatever dies after it, the same command is sent again (by the
approver's retry, a worker or ``millrace repair resume``), and its identity has one effect.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ingress import limits as ingress_limits
from ingress.operators import decisions
from schemas import errors, identity, rendering
from schemas.operators import decision_note
from schemas.payments import limits as payments_limits
from schemas.records import Command

if TYPE_CHECKING:
    from ingress.commands.exchange import Exchange
    from ingress.http.store import Store

Found = dict[str, Any]  # a proposal as its query gives it
Decided = tuple[dict[str, Any], bool]  # the proposal as it is shown, and whether its caller is told so again
_APPROVED: Final = "approved"


@dataclass(frozen=True, slots=True)
class Effect:
    """What the owner is told of an approved proposal, at a time; and the query that takes over what became of it."""

    command: Callable[[Found, int], Command]
    settle: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of proposal. Its queries know a proposal as ``id``, and the case that it stands under as ``case``."""

    name: str  # of the object in answers
    times: tuple[str, ...]
    one: str
    approve: str
    reject: str
    effect: Effect | None = None  # None: the approval itself has the effect
    in_force: str = _APPROVED  # the database's word for what is approved
    bounds: Mapping[str, int] = field(default_factory=dict)  # ours, that the database judges an approval by
    conflicts: Mapping[str, str] = field(default_factory=dict)  # why it may not be, by the database's word
    audits_case: bool = False  # the audit names the case and not the proposal

    def ids(self, proposal_id: str, case_id: str | None) -> tuple[str, ...]:
        """The ids that a call names; first the one that its audit row names."""
        if case_id is None:
            return (proposal_id,)
        return (case_id, proposal_id) if self.audits_case else (proposal_id, case_id)


class Proposals:
    """Proposals of one kind, over a store whose commits wait for the disk. How they are made, each kind says itself."""

    kind: ClassVar[Kind]

    def __init__(self, store: Store, exchange: Exchange) -> None:
        self._store = store
        self._exchange = exchange

    async def approve(self, proposal_id: str, approver: str, case_id: str | None = None) -> Decided:
        """The proposal with its effect; or approved, when the owner has not decided in time.

        Raises FourEyesRequired, NotFound or StateConflict.
        """
        asked = {"id": proposal_id, "case": case_id, "actor": approver, **self.kind.bounds}
        word = await self._store.word(self.kind.approve, asked)
        known = decisions.require(word, self.kind.in_force, self.kind.conflicts)
        found = await self._read(proposal_id, case_id)
        if self.kind.effect is not None and found["state"] == _APPROVED:
            await self._carry_out(self.kind.effect, found)
        return await self.get(proposal_id, case_id), known

    async def reject(self, proposal_id: str, body: dict[str, Any], person: str, case_id: str | None = None) -> Decided:
        """The proposal, rejected; a case that it stands under waits again. Its author may withdraw it so.

        Raises InvalidCommand, NotFound or StateConflict.
        """
        wanted = decision_note.read_decision(decision_note.OPTIONAL, body)
        asked = {"id": proposal_id, "case": case_id, "actor": person, "note": wanted["note"]}
        known = decisions.require(await self._store.word(self.kind.reject, asked), "rejected")
        return await self.get(proposal_id, case_id), known

    async def get(self, proposal_id: str, case_id: str | None = None) -> dict[str, Any]:
        """One proposal; where its kind stands under cases, of this one. Raises NotFound."""
        return self._rendered(await self._read(proposal_id, case_id))

    async def _of_case(self, query: str, case_id: str) -> dict[str, Any]:
        """The proposals of a case, newest first. Raises NotFound."""
        if not await self._store.rows("repairs_case", {"id": case_id}):
            raise errors.NotFound
        return await self._listed(query, {"case": case_id, "id": None, "limit": payments_limits.REPAIRS_OF_CASE_MAX})

    async def _listed(self, query: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
        return {"data": [self._rendered(row) for row in await self._store.records(query, wanted)]}

    async def _read(self, proposal_id: str, case_id: str | None) -> Found:
        asked = {"id": proposal_id, "case": case_id, "state": None, "limit": 1}  # whatever its state
        rows = await self._store.records(self.kind.one, asked)
        if not rows:
            raise errors.NotFound
        return rows[0]

    async def _carry_out(self, effect: Effect, found: Found) -> None:
        """Sends the command and takes over what became of it, as far as that is known in time."""
        command = effect.command(found, time.time_ns() // 1_000)
        try:
            await self._exchange.carry_out(
                [command], ingress_limits.RESULT_WAIT_DEFAULT_S, only_acknowledged=False, bulk=False
            )
        except (errors.Unavailable, errors.QuotaExceeded):
            return  # it stays approved, which is what the answer says
        await self._store.word(effect.settle, {"id": found["id"]})

    def _rendered(self, found: Found) -> dict[str, Any]:
        return {**found, **rendering.timestamps(found, self.kind.times), "object": self.kind.name}


def identified(prefix: str, verb: str, about: str, author: str, key: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """What every proposal is stored with: the same id for a person's retry with this key, and what it must equal."""
    return {
        "id": identity.derived_id(prefix, author, f"{verb} {about}", key),
        "note": wanted["note"],
        "author": author,
        "hash": identity.request_hash(verb, about, wanted),
    }
