"""Money by hand on merchants' accounts: proposed by one person, approved by another, then carried out once.

The approval is durable before the command is sent; whatever dies after it, the same command is sent again (by the
approver's retry, a worker or ``millrace repair resume``), and the owner carries out only what is approved.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ingress.operators import decisions
from ingress.payments.repair.proposals import Effect, Kind, Proposals
from schemas.payments import limits, money_by_hand

if TYPE_CHECKING:
    from ingress.commands.envelope import Request
    from ingress.payments.repair.proposals import Decided, Found
    from schemas.records import Command

STATES: Final = ("proposed", "approved", "rejected", "done", "refused")


def _command(found: Found, now_us: int) -> Command:
    payload = json.loads(found["payload"])
    return money_by_hand.command_of(found["id"], found["operation"], found["object_id"], payload, now_us)


class MoneyProposals(Proposals):
    """Proposals about the money of merchants, under no case."""

    kind = Kind(
        name="money_proposal",
        times=("proposed_at", "decided_at", "settled_at"),
        one="money_proposals",
        approve="money_approve",
        reject="money_reject",
        effect=Effect(_command, "money_settle"),
    )

    async def propose(self, call: Request, object_id: str, author: str) -> Decided:
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
        known = decisions.require(await self._store.word("money_propose", parameters), "proposed")
        return await self.get(id_), known

    async def newest(self, state: str | None) -> dict[str, Any]:
        """The newest proposals, of one state when it is asked for."""
        wanted = {"id": None, "state": state, "limit": limits.MONEY_PROPOSALS_LISTED_MAX}
        return await self._listed("money_proposals", wanted)

    def _rendered(self, found: Found) -> dict[str, Any]:
        return super()._rendered(found) | {"payload": json.loads(found["payload"])}
