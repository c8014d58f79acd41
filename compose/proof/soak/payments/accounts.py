"""Merchants' accounts under load: payouts to their banks with every end that they can have, and freezes.

A payout takes what is available, one minor unit more is refused, and two that want all of it at once are not both made.
A frozen merchant begins nothing from some second on, pays nothing out from that moment on, and what is under way ends.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final, Literal

from compose.proof import limits as proof_limits
from compose.proof.kit.journal import CURRENT, Journal
from compose.proof.soak.payments.plans import Care, Kind, Plan
from compose.proof.soak.waiting import Unexpected, until
from ingress.client import CallRefused
from schemas import limits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from compose.proof.soak.payments.caller import Caller
    from compose.proof.soak.payments.operators import Operators

#: how a payout ends, and by whose word. "returned": the bank pays and takes back; "off": it books another amount
End = Literal["paid", "returned", "off", "canceled", "told_paid", "told_failed"]
ENDS: Final[tuple[End, ...]] = ("paid", "canceled", "told_paid", "returned", "told_failed", "off")
_STATE: Final[dict[End, str]] = {
    "paid": "paid",
    "returned": "failed",
    "off": "pending",
    "canceled": "canceled",
    "told_paid": "paid",
    "told_failed": "failed",
}
#: a merchant of its own, so that nobody else's payments are refused
FROZEN_MERCHANT: Final = "m_soak_frost"
_INSUFFICIENT: Final = "insufficient_funds"
_FROZEN: Final = "account_frozen"
_PART: Final = 8  # of what is available, so that something is left for refunds and disputes


@dataclass(frozen=True, slots=True, kw_only=True)
class MadePayout:
    """A payout that was accepted, and how it has to end."""

    id: str
    merchant: str
    amount: int
    currency: str
    end: End

    @property
    def state(self) -> str:
        """The state that it must have in the end."""
        return _STATE[self.end]


class Payouts:
    """Payouts of every merchant."""

    def __init__(self, callers: list[Caller], operators: Operators) -> None:
        self.made: list[MadePayout] = []
        self.refused = 0
        self._callers = callers
        self._operators = operators
        self._ends = cycle(ENDS)
        self._rounds = 0

    async def round(self) -> None:
        """One payout of every merchant in every currency that has something available, and one past it."""
        self._rounds += 1
        for caller in self._callers:
            balance = await caller.read(caller.client.balance)
            for currency, held in balance.items():
                if held["available"] >= proof_limits.SOAK_AMOUNT_MINOR_MIN:
                    await self._one(caller, currency, held["available"] // _PART)
                    await self._too_much(caller, currency)

    async def race(self) -> None:
        """Nothing else moves: of two payouts of everything that is available exactly one is made."""
        for caller in self._callers:
            balance = await caller.read(caller.client.balance)
            currency, held = max(balance.items(), key=lambda one: one[1]["available"])
            if held["available"] <= 0:
                raise Unexpected(f"{caller.merchant} has nothing available after every settlement")
            outcomes = await asyncio.gather(
                *(self._create(caller, held["available"], currency, f"race-{n}") for n in range(2))
            )
            made = [one for one in outcomes if one]
            if len(made) != 1:
                raise Unexpected(f"{len(made)} of two payouts of all that {caller.merchant} has were made")
            self._note(caller, made[0], held["available"], currency, "paid")

    async def _one(self, caller: Caller, currency: str, amount: int) -> None:
        end = next(self._ends)
        payout_id = await self._create(caller, amount, currency, f"{self._rounds}-{currency}")
        if not payout_id:
            return  # a dispute was faster; refused, and that is how it ends
        self._note(caller, payout_id, amount, currency, end)
        if end == "canceled":
            key = f"soak-payout-cancel-{payout_id}"
            await caller.do(key, lambda: caller.client.cancel_payout(payout_id, idempotency_key=key), Care.AT_ONCE)
        elif end in ("told_paid", "told_failed"):
            await self._operators.tell(payout_id, amount, currency, _STATE[end])

    async def _too_much(self, caller: Caller, currency: str) -> None:
        """All that any merchant could ever have, and then some."""
        if await self._create(caller, limits.AMOUNT_MINOR_MAX, currency, f"{self._rounds}-{currency}-too-much"):
            raise Unexpected(f"{caller.merchant} was paid out more than there is")

    async def _create(self, caller: Caller, amount: int, currency: str, name: str) -> str:
        """The id of a payout, made once whatever happens to answers; '' when there is not enough."""
        key = f"soak-payout-{caller.merchant}-{name}"
        try:
            done = await caller.do(
                key,
                lambda: caller.client.pay_out(amount, currency, "main account", idempotency_key=key),
                Care.TWICE,
            )
        except CallRefused as refused:
            if refused.code != _INSUFFICIENT:
                raise
            self.refused += 1
            return ""
        return str(done.result["id"])

    def _note(self, caller: Caller, payout_id: str, amount: int, currency: str, end: End) -> None:
        made = MadePayout(id=payout_id, merchant=caller.merchant, amount=amount, currency=currency, end=end)
        self.made.append(made)


class Freezer:
    """Freezes one merchant again and again while it pays and processes die."""

    def __init__(self, caller: Caller, operators: Operators, pay: Callable[[Plan], Awaitable[str]], seed: int) -> None:
        self.freezes = 0
        self.refused = 0
        self._caller = caller
        self._operators = operators
        self._pay = pay
        self._seed = seed
        self._number = 0

    async def freeze_until(self, is_calm: asyncio.Event) -> None:
        """Turns until nothing is killed any more; the first turn is always whole."""
        CURRENT.set(Journal())
        while not (self.freezes and is_calm.is_set()):
            await self._turn()

    async def _turn(self) -> None:
        paid = await self._pay(self._plan())
        open_one = await self._create("tok_sim_approve")
        under_way = await self._create("tok_sim_slow")
        await self._confirm(under_way)
        await self._operators.freeze(FROZEN_MERCHANT, self.freezes, frozen=True)
        await self._refused_at_once()
        await asyncio.sleep(proof_limits.SOAK_FROZEN_SEEN_S)  # every owner has read of it by then
        await self._refuses("confirm", lambda: self._confirm(open_one))
        await self._refuses("create", lambda: self._create("tok_sim_approve"))
        await self._refuses("refund", lambda: self._refund(paid))
        if (state := (await self._caller.intent(under_way))["state"]) != "succeeded":
            raise Unexpected(f"{under_way} was under way when its merchant was frozen, and is {state}")
        await self._operators.freeze(FROZEN_MERCHANT, self.freezes, frozen=False)
        self.freezes += 1
        await asyncio.sleep(proof_limits.SOAK_FROZEN_SEEN_S)
        await until(self._is_accepted, f"{FROZEN_MERCHANT} was unfrozen and still begins nothing")
        await self._confirm(open_one, again=True)
        if (state := (await self._caller.intent(open_one))["state"]) != "succeeded":
            raise Unexpected(f"{open_one} was refused by a freeze, confirmed after it, and is {state}")

    async def _refused_at_once(self) -> None:
        """Payouts are the account's own: no second passes between the freeze and their refusal."""
        client, key = self._caller.client, self._key("payout")
        call = self._caller.do(key, lambda: client.pay_out(1, "EUR", "main account", idempotency_key=key), Care.TWICE)
        await self._refuses("payout", lambda: call)

    async def _refuses(self, what: str, call: Callable[[], Awaitable[Any]]) -> None:
        try:
            await call()
        except CallRefused as refused:
            if refused.code != _FROZEN:
                raise
            self.refused += 1
            return
        raise Unexpected(f"{what}: a frozen merchant was not refused")

    async def _is_accepted(self) -> bool | None:
        """Each time another payment: a refusal is kept."""
        try:
            await self._create("tok_sim_approve")
        except CallRefused as refused:
            if refused.code != _FROZEN:
                raise
            return None
        return True

    async def _create(self, card: str) -> str:
        client, key = self._caller.client, self._key("create")
        amount = proof_limits.SOAK_AMOUNT_MINOR_MIN
        done = await self._caller.do(
            key, lambda: client.create(amount=amount, currency="EUR", payment_method=card, idempotency_key=key)
        )
        return str(done.result["id"])

    async def _confirm(self, intent_id: str, *, again: bool = False) -> None:
        """``again``: with another identity, for a refusal is kept."""
        client, key = self._caller.client, f"soak-frost-confirm-{intent_id}-{again}"
        await self._caller.do(key, lambda: client.confirm(intent_id, idempotency_key=key), Care.TWICE)

    async def _refund(self, intent_id: str) -> None:
        client, key = self._caller.client, self._key("refund")
        await self._caller.do(key, lambda: client.refund(intent_id, amount=1, idempotency_key=key), Care.TWICE)

    def _key(self, what: str) -> str:
        self._number += 1
        return f"soak-frost-{self._seed}-{what}-{self._number}"

    def _plan(self) -> Plan:
        self._number += 1
        return Plan(
            number=self._number,
            kind=Kind(name="of a merchant that is frozen now and then"),
            merchant=FROZEN_MERCHANT,
            amount=proof_limits.SOAK_AMOUNT_MINOR_MIN + self._number,
            currency="EUR",
            seed=f"{self._seed}:frost:{self._number}",
        )
