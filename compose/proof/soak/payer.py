"""Carries out one plan over HTTP: card, captures, cancellation, dispute, refunds, each command with its care.

One payment that goes wrong does not stop the others: what is not as planned becomes a problem of the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

from compose.proof.kit.journal import CURRENT, Journal
from compose.proof.soak.caller import Unexpected
from compose.proof.soak.made import Made
from compose.proof.soak.plans import APPROVED_NUMBER, DECLINED_NUMBER
from ingress.client import MillraceClientError
from schemas import identity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compose.proof.soak.caller import Caller
    from compose.proof.soak.operators import Operators
    from compose.proof.soak.plans import Plan
    from compose.proof.soak.processor import Processor


class Payer:
    """Carries out plans of one merchant."""

    def __init__(
        self, caller: Caller, processors: Mapping[str, Processor], operators: Operators, vault_url: str
    ) -> None:
        self._caller = caller
        self._operators = operators
        self._processors = processors
        self._vault_url = vault_url
        self._processor_of: dict[str, str] = {}

    def processor_of(self, intent_id: str) -> str:
        """The processor that took this payment; '' of one that was never confirmed."""
        return self._processor_of.get(intent_id, "")

    async def carry_out(self, plan: Plan) -> tuple[str, str]:
        """The payment's id, and what is not as planned ('' when all is)."""
        CURRENT.set(Journal())
        made = Made(self._caller, plan)
        try:
            await self._carry_out(plan, made)
        except (Unexpected, MillraceClientError, httpx.HTTPError) as error:
            said = str(error) or type(error).__name__
            return made.intent_id, f"payment {plan.number}, {plan.kind.name} ({made.intent_id}): {said}"
        return made.intent_id, ""

    async def _carry_out(self, plan: Plan, made: Made) -> None:
        await made.create(await self._card(plan))
        if plan.kind.cancel != "before_confirm":
            await made.confirm()
            if plan.kind.risk:
                await self._judge(plan, made)
            if plan.kind.action:
                await self._act(plan, made)
            await made.capture()
            self._processor_of[made.intent_id] = made.processor
        if plan.kind.cancel:
            await made.cancel()
        if plan.disputed:
            await self._dispute(plan, made)
        for number, amount in enumerate(plan.refunds, 1):
            await made.refund(amount, f"refund-{number}")
        if plan.kind.races:
            await made.race_refunds(plan.received - plan.disputed)
        if plan.state == "succeeded":
            await made.ask_for_too_much(plan.received - plan.lost - plan.refunded + 1)

    async def _card(self, plan: Plan) -> str:
        if plan.kind.card not in (APPROVED_NUMBER, DECLINED_NUMBER):
            return plan.kind.card
        return await self._caller.vault_token(self._vault_url, f"{plan.seed}-card", plan.kind.card)

    async def _judge(self, plan: Plan, made: Made) -> None:
        """The rules stop it, or an operator whom they ask says yes or no."""
        if plan.kind.risk == "blocked":
            await made.is_blocked()
            return
        await self._operators.review(made.intent_id, "approve" if plan.kind.risk == "approved" else "reject")
        await made.is_reviewed()

    async def _act(self, plan: Plan, made: Made) -> None:
        """The payer says something to the bank; the merchant hears of it."""
        operation_id = identity.operation_id(made.intent_id, made.attempt)
        await self._processors[made.processor].act(operation_id, plan.kind.action)
        await made.is_over()

    async def _dispute(self, plan: Plan, made: Made) -> None:
        """Opened by the payer's bank, decided by it: the merchant only looks on."""
        processor = self._processors[made.processor]
        dispute_id = await processor.dispute(made.intent_id, plan.disputed)
        await made.disputed("needs_response", "withdrawn")
        if plan.kind.races:  # while the bank has the money, the rest alone can be paid back
            await made.race_refunds(plan.received - plan.disputed)
        asked = plan.kind.outcome
        if plan.kind.evidence:  # decides, whatever the bank is asked for
            await made.submit_evidence(plan.kind.evidence)
            asked = "lost" if plan.kind.outcome == "won" else "won"
        await processor.close_dispute(dispute_id, asked)
        funds = "reinstated" if plan.kind.outcome == "won" else "withdrawn"
        await made.disputed(plan.kind.outcome, funds)
