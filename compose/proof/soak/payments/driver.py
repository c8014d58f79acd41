"""One payment of the soak under way: every command with a key of its own, and what has to be seen after it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from compose.proof.soak.payments.plans import WRONG_AMOUNT
from compose.proof.soak.payments.policies import countries
from compose.proof.soak.waiting import Unexpected, until
from ingress.client import CallRefused

if TYPE_CHECKING:
    from compose.proof.soak.payments.caller import Caller
    from compose.proof.soak.payments.plans import Plan
    from ingress.client import Committed

_PAST_THE_CAP = "amount_exceeds_refundable"


class PaymentDriver:
    """One payment under way: every command with a key of its own, derived from the plan."""

    def __init__(self, caller: Caller, plan: Plan) -> None:
        self.intent_id = ""
        self.processor = ""
        self.attempt = 0
        self._caller = caller
        self._plan = plan
        self._raced = False

    async def create(self, card: str) -> None:
        """The payment exists."""
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

    async def is_blocked(self) -> None:
        """The rules stopped it: no processor was asked, and it says why."""
        error = (await self._caller.intent(self.intent_id))["last_payment_error"]
        if error != {"code": "blocked_by_risk"}:
            raise Unexpected(f"the rules forbid it, and its error is {error}")

    async def is_reviewed(self) -> None:
        """It goes on after the review; which processor took it."""
        intent = await self._caller.intent(self.intent_id, "succeeded", "requires_capture", "canceled")
        self.processor, self.attempt = str(intent["processor"]), int(intent["latest_attempt"])

    async def submit_evidence(self, text: str) -> None:
        """Drafted in parts, submitted once."""
        (dispute,) = await self._caller.read(self._disputes)
        client = self._caller.client
        for kind, said, submit in (("receipt", "number 7", False), ("uncategorized_text", text, True)):
            key = self._key(f"evidence-{kind}")

            def say(key: str = key, said: dict[str, str] = {kind: said}, *, submit: bool = submit) -> Any:  # noqa: B006
                return client.submit_evidence(dispute["id"], said, submit=submit, idempotency_key=key)

            await self._caller.do(key, say, self._plan.care(f"evidence-{kind}"))

        async def is_submitted() -> bool | None:
            return (await self._caller.read(self._disputes))[0]["evidence_state"] == "submitted" or None

        await until(is_submitted, "the evidence is not submitted")

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
        """Nothing is held any more."""
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
        customer, of_card = countries(self._plan.kind.risk)
        await self._caller.do(
            key,
            lambda: self._caller.client.confirm(
                self.intent_id,
                payment_method=card,
                customer_country=customer,
                card_country=of_card,
                idempotency_key=key,
            ),
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
