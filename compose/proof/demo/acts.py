"""One of each: refunds, disputes, a storm of webhooks and a card through the vault, each a payment of its own.

Every act says beforehand how it must end and which ledger transactions its payment must have; what differs is a
problem.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import httpx

from compose.proof import limits as proof_limits
from compose.simulator import limits as simulator_limits
from ingress.client.errors import MillraceClientError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ingress.client import AsyncMillraceClient

Found = TypeVar("Found")

MERCHANT: Final = "m_demo_shop"
CURRENCY: Final = "GBP"
#: a number that the processor simulator approves
_CARD: Final = {"number": "4242 4242 4242 4242", "exp_month": 12, "exp_year": 2035, "cvc": "123"}


class Unexpected(Exception):
    """Something did not end as it must; the text says what and how."""


@dataclass(slots=True)
class Act:
    """One payment with what is done to it. ``posts`` are the kinds of its ledger transactions, in their order."""

    name: str
    says: str
    amount: int
    posts: tuple[str, ...]
    card: str = "tok_sim_approve"
    intent_id: str = ""
    ended: str = ""
    posted: list[str] = field(default_factory=list)
    problem: str = ""


def acts() -> dict[str, Act]:
    """The acts in the order in which they are shown."""
    paid_back = ("capture", "refund", "refund_succeeded")
    return {
        "refund": Act("refund", "20.00 of 50.00 go back to the payer", 5_000, (*paid_back, "settled")),
        "failed refund": Act(
            "refund that fails later",
            "the bank accepts it, then sends it back",
            4_000,
            (*paid_back, "refund_failed_later", "settled"),
            card="tok_sim_refund_fails_later",
        ),
        "lost": Act(
            "dispute, lost",
            "the bank takes 80.00 back and keeps it",
            8_000,
            ("capture", "dispute_withdrawn", "dispute_lost", "settled"),
        ),
        "won": Act(
            "dispute, won",
            "the bank takes 70.00 and returns it",
            7_000,
            ("capture", "dispute_withdrawn", "dispute_reinstated", "settled"),
        ),
        "storm": Act(
            "webhook storm",
            f"each webhook {simulator_limits.SIMULATOR_WEBHOOK_STORM_COPIES} times, in any order",
            3_210,
            ("capture", "settled"),
            card="tok_sim_webhook_storm",
        ),
        "vault": Act(
            "card in the vault", "a number becomes a token, and the token pays", 900, ("capture", "settled"), card=""
        ),
    }


class Stage:
    """Where acts are played: the merchant's client, and the addresses of processor and vault."""

    def __init__(self, client: AsyncMillraceClient, token: str, processor_url: str, vault_url: str) -> None:
        self._client = client
        self._token = token
        self._processor_url = processor_url
        self._vault_url = vault_url

    async def play(self, cast: dict[str, Act]) -> None:
        """Plays all acts at once; what went wrong stands in their ``problem``."""
        play: dict[str, Callable[[Act], Awaitable[str]]] = {
            "refund": self._refund,
            "failed refund": self._failed_refund,
            "lost": lambda act: self._dispute(act, "lost", "withdrawn"),
            "won": lambda act: self._dispute(act, "won", "reinstated"),
            "storm": self._pay,
            "vault": self._vault,
        }
        await asyncio.gather(*(_guarded(act, play[name]) for name, act in cast.items()))

    async def pay_all(self, payments: list[Act]) -> None:
        """Plain payments, all at once."""
        await asyncio.gather(*(_guarded(act, self._pay) for act in payments))

    async def _pay(self, act: Act) -> str:
        made = await self._client.create(
            amount=act.amount, currency=CURRENCY, payment_method=act.card, metadata={"act": act.name}
        )
        act.intent_id = str(made.result["id"])
        await self._client.confirm(act.intent_id)
        intent = await self._client.wait(act.intent_id, within_s=proof_limits.DEMO_ACT_WAIT_S)
        if (intent["state"], intent["amount_received"]) != ("succeeded", act.amount):
            raise Unexpected(f"ended {intent['state']} with {intent['amount_received']} received")
        return "succeeded"

    async def _refund(self, act: Act) -> str:
        await self._pay(act)
        return await self._paid_back(act, amount=2_000, left=2_000, state="succeeded")

    async def _failed_refund(self, act: Act) -> str:
        await self._pay(act)
        return await self._paid_back(act, amount=act.amount, left=0, state="failed")

    async def _paid_back(self, act: Act, *, amount: int, left: int, state: str) -> str:
        made = (await self._client.refund(act.intent_id, amount=amount)).result["id"]

        async def ended() -> dict[str, Any] | None:
            refund = await self._client.get_refund(made)
            return refund if refund["state"] == state else None

        refund = await _until(ended, f"refund {made} is not {state}")
        intent = await self._client.get(act.intent_id)
        if intent["amount_refunded"] != left:
            raise Unexpected(f"{intent['amount_refunded']} count as refunded, must be {left}")
        return f"{state}: {refund['failure_reason']}" if refund["failure_reason"] else state

    async def _dispute(self, act: Act, outcome: str, funds: str) -> str:
        await self._pay(act)
        async with httpx.AsyncClient(base_url=self._processor_url, timeout=proof_limits.DEMO_ACT_WAIT_S) as processor:
            opened = _answer(await processor.post("/disputes", json={"reference": act.intent_id, "amount": act.amount}))
            await self._disputed(act, "needs_response", "withdrawn")
            _answer(await processor.post(f"/disputes/{opened['id']}/close", json={"outcome": outcome}))
        await self._disputed(act, outcome, funds)
        return f"{outcome}, funds {funds}"

    async def _disputed(self, act: Act, state: str, funds: str) -> None:
        async def there() -> bool | None:
            found = [one async for one in self._client.disputes(act.intent_id)]
            return [(one["state"], one["funds"]) for one in found] == [(state, funds)] or None

        await _until(there, f"the dispute is not {state} with funds {funds}")

    async def _vault(self, act: Act) -> str:
        async with httpx.AsyncClient(base_url=self._vault_url, timeout=proof_limits.DEMO_ACT_WAIT_S) as vault:
            body = {"idempotency_key": "demo-card", "payload": _CARD}
            headers = {"Authorization": f"Bearer {self._token}"}
            card = _answer(await vault.post("/v1/tokens", json=body, headers=headers))["result"]
        act.card = card["id"]
        return f"{await self._pay(act)} with {card['network']} ending in {card['last4']}"


async def _guarded(act: Act, play: Callable[[Act], Awaitable[str]]) -> None:
    """One act that goes wrong does not stop the others."""
    try:
        act.ended = await play(act)
    except (Unexpected, MillraceClientError, httpx.HTTPError) as error:
        act.ended = "not as it must"
        act.problem = f"{act.name} ({act.intent_id}): {str(error) or type(error).__name__}"


async def _until(look: Callable[[], Awaitable[Found | None]], otherwise: str) -> Found:
    """What the look finds as soon as it finds something. Raises Unexpected past the bound."""
    ends_at = time.monotonic() + proof_limits.DEMO_ACT_WAIT_S
    while (found := await look()) is None:
        if time.monotonic() > ends_at:
            raise Unexpected(f"{otherwise} after {proof_limits.DEMO_ACT_WAIT_S} s")
        await asyncio.sleep(proof_limits.DEMO_SETTLE_POLL_MS / 1_000)
    return found


def _answer(response: httpx.Response) -> dict[str, Any]:
    if response.is_error:
        raise Unexpected(f"{response.request.url.path} answered {response.status_code}: {response.text[:200]}")
    return dict(response.json())
