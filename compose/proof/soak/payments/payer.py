"""Carries out one plan over HTTP: card, captures, cancellation, dispute, refunds, each command with its care.

One payment that goes wrong does not stop the others: what is not as planned becomes a problem of the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

from compose.proof.kit.journal import CURRENT, Journal
from compose.proof.soak.payments.driver import PaymentDriver
from compose.proof.soak.payments.plans import APPROVED_NUMBER, DECLINED_NUMBER
from compose.proof.soak.waiting import Unexpected
from ingress.client import MillraceClientError
from schemas import identity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compose.proof.soak.payments.caller import Caller
    from compose.proof.soak.payments.operators import Operators
    from compose.proof.soak.payments.plans import Plan
    from compose.proof.soak.payments.processor import Processor


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
        driver = PaymentDriver(self._caller, plan)
        try:
            await self._carry_out(plan, driver)
        except (Unexpected, MillraceClientError, httpx.HTTPError) as error:
            said = str(error) or type(error).__name__
            return driver.intent_id, f"payment {plan.number}, {plan.kind.name} ({driver.intent_id}): {said}"
        return driver.intent_id, ""

    async def _carry_out(self, plan: Plan, driver: PaymentDriver) -> None:
        await driver.create(await self._card(plan))
        if plan.kind.cancel != "before_confirm":
            await driver.confirm()
            if plan.kind.risk:
                await self._judge(plan, driver)
            if plan.kind.action:
                await self._act(plan, driver)
            await driver.capture()
            self._processor_of[driver.intent_id] = driver.processor
        if plan.kind.cancel:
            await driver.cancel()
        if plan.disputed:
            await self._dispute(plan, driver)
        for number, amount in enumerate(plan.refunds, 1):
            await driver.refund(amount, f"refund-{number}")
        if plan.kind.races:
            await driver.race_refunds(plan.received - plan.disputed)
        if plan.state == "succeeded":
            await driver.ask_for_too_much(plan.received - plan.lost - plan.refunded + 1)

    async def _card(self, plan: Plan) -> str:
        if plan.kind.card not in (APPROVED_NUMBER, DECLINED_NUMBER):
            return plan.kind.card
        return await self._caller.vault_token(self._vault_url, f"{plan.seed}-card", plan.kind.card)

    async def _judge(self, plan: Plan, driver: PaymentDriver) -> None:
        """The rules stop it, or an operator whom they ask says yes or no."""
        if plan.kind.risk == "blocked":
            await driver.is_blocked()
            return
        await self._operators.review(driver.intent_id, "approve" if plan.kind.risk == "approved" else "reject")
        await driver.is_reviewed()

    async def _act(self, plan: Plan, driver: PaymentDriver) -> None:
        """The payer says something to the bank; the merchant hears of it."""
        operation_id = identity.operation_id(driver.intent_id, driver.attempt)
        await self._processors[driver.processor].act(operation_id, plan.kind.action)
        await driver.is_over()

    async def _dispute(self, plan: Plan, driver: PaymentDriver) -> None:
        """Opened by the payer's bank, decided by it: the merchant only looks on."""
        processor = self._processors[driver.processor]
        dispute_id = await processor.dispute(driver.intent_id, plan.disputed)
        await driver.disputed("needs_response", "withdrawn")
        if plan.kind.races:  # while the bank has the money, the rest alone can be paid back
            await driver.race_refunds(plan.received - plan.disputed)
        asked = plan.kind.outcome
        if plan.kind.evidence:  # decides, whatever the bank is asked for
            await driver.submit_evidence(plan.kind.evidence)
            asked = "lost" if plan.kind.outcome == "won" else "won"
        await processor.close_dispute(dispute_id, asked)
        funds = "reinstated" if plan.kind.outcome == "won" else "withdrawn"
        await driver.disputed(plan.kind.outcome, funds)
