"""Carries out one plan over HTTP: card, captures, cancellation, dispute, refunds, each command with its care.

One payment that goes wrong does not stop the others: what is not as planned becomes a problem of the run.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx

from compose.demo.journal import CURRENT, Journal
from compose.soak.caller import Unexpected, until
from compose.soak.plans import APPROVED_NUMBER, DECLINED_NUMBER, WRONG_AMOUNT
from ingress.client import CallRefused, MillraceClientError
from schemas import identity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compose.soak.caller import Caller
    from compose.soak.plans import Plan
    from compose.soak.processor import Processor
    from ingress.client import Committed

_PAST_THE_CAP = "amount_exceeds_refundable"


class Payer:
    """Carries out plans of one merchant."""

    def __init__(self, caller: Caller, processors: Mapping[str, Processor], vault_url: str) -> None:
        self._caller = caller
        self._processors = processors
        self._vault_url = vault_url
        self._processor_of: dict[str, str] = {}

    def processor_of(self, intent_id: str) -> str:
        """The processor that took this payment; '' of one that was never confirmed."""
        return self._processor_of.get(intent_id, "")

    async def carry_out(self, plan: Plan) -> tuple[str, str]:
        """The payment's id, and what is not as planned ('' when all is)."""
        CURRENT.set(Journal())
        made = _Made(self._caller, plan)
        try:
            await self._carry_out(plan, made)
        except (Unexpected, MillraceClientError, httpx.HTTPError) as error:
            said = str(error) or type(error).__name__
            return made.intent_id, f"payment {plan.number}, {plan.kind.name} ({made.intent_id}): {said}"
        return made.intent_id, ""

    async def _carry_out(self, plan: Plan, made: _Made) -> None:
        await made.create(await self._card(plan))
        if plan.kind.cancel != "before_confirm":
            await made.confirm()
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

    async def _act(self, plan: Plan, made: _Made) -> None:
        """The payer says something to the bank; the merchant hears of it."""
        operation_id = identity.operation_id(made.intent_id, made.attempt)
        await self._processors[made.processor].act(operation_id, plan.kind.action)
        await made.is_over()

    async def _dispute(self, plan: Plan, made: _Made) -> None:
        """Opened by the payer's bank, decided by it: the merchant only looks on."""
        processor = self._processors[made.processor]
        dispute_id = await processor.dispute(made.intent_id, plan.disputed)
        await made.disputed("needs_response", "withdrawn")
        if plan.kind.races:  # while the bank has the money, the rest alone can be paid back
            await made.race_refunds(plan.received - plan.disputed)
        await processor.close_dispute(dispute_id, plan.kind.outcome)
        funds = "reinstated" if plan.kind.outcome == "won" else "withdrawn"
        await made.disputed(plan.kind.outcome, funds)


class _Made:
    """One payment under way: every command with a key of its own, derived from the plan."""

    def __init__(self, caller: Caller, plan: Plan) -> None:
        self.intent_id = ""
        self.processor = ""
        self.attempt = 0
        self._caller = caller
        self._plan = plan
        self._raced = False

    async def create(self, card: str) -> None:
        plan, client = self._plan, self._caller.client
        key = self._key("create")
        done = await self._caller.do(
            key,
            lambda: client.create(
                amount=plan.amount,
                currency=plan.currency,
                payment_method=card,
                capture_method="manual" if plan.kind.is_manual else "automatic",
                metadata={"kind": plan.kind.name},
                idempotency_key=key,
            ),
            plan.care("create"),
        )
        self.intent_id = str(done.result["id"])

    async def confirm(self) -> None:
        """Confirms, and once more with the second card where there is one."""
        plan = self._plan
        await self._confirm("confirm", None)
        if plan.kind.card == WRONG_AMOUNT:
            return  # it waits for a person
        intent = await self._caller.intent(self.intent_id)
        if plan.kind.second_card and intent["state"] == "requires_payment_method":
            await self._confirm("confirm-again", plan.kind.second_card)
            intent = await self._caller.intent(self.intent_id)
        self.processor, self.attempt = str(intent["processor"]), int(intent["latest_attempt"])

    async def is_over(self) -> None:
        """Nobody waits for the payer any more."""
        await self._caller.intent(self.intent_id, "succeeded", "requires_capture", "requires_payment_method")

    async def capture(self) -> None:
        """Every capture of the plan, one after the other."""
        plan, client = self._plan, self._caller.client
        for number, amount in enumerate(plan.captures, 1):
            key, final = self._key(f"capture-{number}"), number == len(plan.captures)

            def capture(key: str = key, amount: int = amount, *, final: bool = final) -> Any:
                return client.capture(self.intent_id, amount=amount, final=final, idempotency_key=key)

            await self._caller.do(key, capture, plan.care(f"capture-{number}"))
            await self._caller.intent(self.intent_id)

    async def cancel(self) -> None:
        key = self._key("cancel")
        await self._caller.do(
            key,
            lambda: self._caller.client.cancel(self.intent_id, idempotency_key=key),
            self._plan.care("cancel"),
        )
        await self._caller.intent(self.intent_id)

    async def refund(self, amount: int, name: str) -> None:
        """One refund, to its end; one of a card whose refunds fail later has failed when this returns."""
        made = await self._refund(amount, name)
        fails = self._plan.kind.card == "tok_sim_refund_fails_later"
        await self._refund_ended(made, "failed" if fails else "succeeded")

    async def race_refunds(self, amount: int) -> None:
        """Two refunds of all that is left at once: exactly one is accepted, the other is past the cap."""
        if self._raced or amount <= 0:
            return
        self._raced = True
        outcomes = await asyncio.gather(
            self._refund(amount, "race-1"), self._refund(amount, "race-2"), return_exceptions=True
        )
        done = [one for one in outcomes if not isinstance(one, BaseException)]
        refused = [one for one in outcomes if isinstance(one, BaseException)]
        for one in refused:
            if not isinstance(one, CallRefused) or one.code != _PAST_THE_CAP:
                raise one
        if len(done) != 1:
            raise Unexpected(f"{len(done)} of two refunds of the last {amount} were accepted")
        await self._refund_ended(done[0], "succeeded")

    async def ask_for_too_much(self, amount: int) -> None:
        """One minor unit past what is left is refused, and nothing happens."""
        try:
            done = await self._refund(amount, "too-much")
        except CallRefused as refused:
            if refused.code != _PAST_THE_CAP:
                raise
            return
        raise Unexpected(f"a refund of {amount} past the cap was accepted: {done.result['id']}")

    async def disputed(self, state: str, funds: str) -> None:
        """The one dispute of this payment is so."""

        async def is_so() -> bool | None:
            found = await self._caller.read(self._disputes)
            return [(one["state"], one["funds"]) for one in found] == [(state, funds)] or None

        await until(is_so, f"the dispute is not {state} with funds {funds}")

    async def _disputes(self) -> list[dict[str, Any]]:
        return [one async for one in self._caller.client.disputes(self.intent_id)]

    async def _confirm(self, name: str, card: str | None) -> None:
        key = self._key(name)
        await self._caller.do(
            key,
            lambda: self._caller.client.confirm(self.intent_id, payment_method=card, idempotency_key=key),
            self._plan.care(name),
        )

    async def _refund(self, amount: int, name: str) -> Committed:
        key = self._key(name)
        return await self._caller.do(
            key,
            lambda: self._caller.client.refund(self.intent_id, amount=amount, idempotency_key=key),
            self._plan.care(name),
        )

    async def _refund_ended(self, made: Committed, state: str) -> None:
        refund_id = made.result["id"]

        async def ended() -> bool | None:
            refund = await self._caller.read(lambda: self._caller.client.get_refund(refund_id))
            return refund["state"] == state or None

        await until(ended, f"refund {refund_id} is not {state}")

    def _key(self, name: str) -> str:
        return f"soak-{self._plan.seed}-{name}"
