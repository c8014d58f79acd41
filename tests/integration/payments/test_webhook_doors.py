"""The simulator's webhooks on the whole system: whichever doors a fact comes through, money moves once."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from schemas import identity
from tests.eventually import becomes
from tests.worlds.public_system import merchant, public

if TYPE_CHECKING:
    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["merchant", "public"]
pytestmark = pytest.mark.servers

DOORS = ("tok_sim_webhook_only", "tok_sim_webhook_first", "tok_sim_webhook_storm", "tok_sim_approve")
_UNSETTLED = "select count(*) from provider_event where reference = any(%s) and state in ('stored', 'parked')"


def intent(merchant: Merchant, intent_id: str) -> dict[str, Any]:
    return dict(merchant.http.get(f"/v1/payment_intents/{intent_id}").json())


def test_every_door_posts_once(public: PublicSystem, merchant: Merchant) -> None:
    """Only the webhook, the webhook first, ten webhooks out of order: one capture in both books."""
    made = [
        merchant.create(payment_method=token, amount=3_210).json()["result"]["id"] for token in DOORS for _ in range(3)
    ]
    for intent_id in made:
        assert merchant.act(intent_id, "confirm").status_code == 200
    for intent_id in made:
        becomes(lambda i=intent_id: intent(merchant, i)["state"], "succeeded", 90, what="succeeded")
    told_by_webhook = made[: -len(made) // len(DOORS)]
    query = "select count(distinct reference) from provider_event where reference = any(%s)"
    becomes(lambda: public.rows(query, told_by_webhook)[0][0], len(told_by_webhook), 30, what="webhooks came")
    becomes(lambda: public.rows(_UNSETTLED, made)[0][0], 0, 60, what="every event settled")
    assert [intent(merchant, i)["amount_received"] for i in made] == [3_210] * len(made)
    references = [f"{identity.operation_id(i, 1)}:capture" for i in made]
    assert public.rows("select count(*) from ledger_txn where reference = any(%s)", references)[0][0] == len(made)
    book = httpx.get(f"{public.settings.addresses().processor_url}/book", timeout=20, trust_env=False).json()
    assert all(sum(entry["reference"] == i for entry in book["captured"]) == 1 for i in made)


def test_a_refund_that_fails_days_after_its_success(public: PublicSystem, merchant: Merchant) -> None:
    """The failure comes by webhook only; the merchant has the money back, and the success is not forgotten."""
    intent_id = merchant.create(payment_method="tok_sim_refund_fails_later", amount=5_000).json()["result"]["id"]
    assert merchant.act(intent_id, "confirm").status_code == 200
    becomes(lambda: intent(merchant, intent_id)["state"], "succeeded", 60)
    payload = {"payment_intent": intent_id, "amount": 5_000}
    made = merchant.http.post("/v1/refunds", json={"idempotency_key": uuid.uuid4().hex, "payload": payload}).json()
    refund_id = made["result"]["id"]
    becomes(lambda: merchant.http.get(f"/v1/refunds/{refund_id}").json()["state"], "failed", 60, what="failed")
    assert intent(merchant, intent_id)["amount_refunded"] == 0
    keys = [f"{identity.operation_id(intent_id, 2)}:{end}" for end in ("refunded", "failed_later")]
    decided = public.rows("select key from idempotency where key = any(%s) and status = 'committed'", keys)
    assert (keys[1],) in decided
    becomes(lambda: public.rows(_UNSETTLED, [intent_id])[0][0], 0, 30, what="every event settled")
