"""Money by hand on merchants' accounts: proposed by one person, approved by another, then carried out once.

The approval is durable before the command is sent; whatever dies after it, the same command is sent again (by the
approver's retry, a worker or ``millrace repair resume``), and the owner carries out only what is approved.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

from ingress import limits as ingress_limits
from ingress.operators import decisions
from schemas import errors, rendering
from schemas.payments import limits as payments_limits
from schemas.payments import money_by_hand, repair

if TYPE_CHECKING:
    from ingress.commands.envelope import Request
    from ingress.commands.exchange import Exchange
    from ingress.http.store import Store

_TIMES: Final = ("proposed_at", "decided_at", "settled_at")
STATES: Final = ("proposed", "approved", "rejected", "done", "refused")


class MoneyProposals:
    """Proposals and decisions of one process, over a store whose commits wait for the disk."""

    def __init__(self, store: Store, exchange: Exchange) -> None:
        self._store = store
        self._exchange = exchange

    async def propose(self, call: Request, object_id: str, author: str) -> dict[str, Any]:
        """The proposal, once for each identity. Raises KeyReused."""
        operation = call.operation.name
        id_ = money_by_hand.proposal_id(author, operation, object_id, call.idempotency_key)
        parameters = {
            "id": id_,
            "operation": operation,
            "object": object_id,
            "payload": json.dumps(call.payload),
            "author": author,
            "hash": call.request_hash,
        }
        decisions.require(await self._store.word("money_propose", parameters), "proposed")
        return await self.get(id_)

    async def approve(self, id_: str, approver: str) -> dict[str, Any]:
        """The proposal, done; or approved, when the owner has not decided in time. Raises FourEyesRequired."""
        decisions.require(await self._store.word("money_approve", {"id": id_, "actor": approver}), "approved")
        found = await self.get(id_)
        if found["state"] == "approved":
            await self._carry_out(found)
        return await self.get(id_)

    async def reject(self, id_: str, body: dict[str, Any], person: str) -> dict[str, Any]:
        """The proposal, rejected. Its author may withdraw it so."""
        wanted = repair.read_decision(repair.DECISION, body)
        parameters = {"id": id_, "actor": person, "note": wanted["note"]}
        decisions.require(await self._store.word("money_reject", parameters), "rejected")
        return await self.get(id_)

    async def get(self, id_: str) -> dict[str, Any]:
        """One proposal. Raises NotFound."""
        rows = await self._store.records("money_proposals", {"id": id_, "state": None, "limit": 1})
        if not rows:
            raise errors.NotFound
        return _render(rows[0])

    async def newest(self, state: str | None) -> dict[str, Any]:
        """The newest proposals, of one state when it is asked for."""
        wanted = {"id": None, "state": state, "limit": payments_limits.MONEY_PROPOSALS_LISTED_MAX}
        return {"data": [_render(row) for row in await self._store.records("money_proposals", wanted)]}

    async def _carry_out(self, found: dict[str, Any]) -> None:
        """Sends the command and takes over what became of it, as far as that is known in time."""
        now_us = time.time_ns() // 1_000
        command = money_by_hand.command_of(
            found["id"], found["operation"], found["object_id"], found["payload"], now_us
        )
        try:
            await self._exchange.carry_out(
                [command], ingress_limits.RESULT_WAIT_DEFAULT_S, only_acknowledged=False, bulk=False
            )
        except (errors.Unavailable, errors.QuotaExceeded):
            return  # it stays approved, which is what the answer says
        await self._store.word("money_settle", {"id": found["id"]})


def _render(found: dict[str, Any]) -> dict[str, Any]:
    times = {name: None if found[name] is None else rendering.timestamp(found[name]) for name in _TIMES}
    return {**found, **times, "object": "money_proposal", "payload": json.loads(found["payload"])}
