"""Refunds race for the last minor unit of a payment that was captured in part and disputed in part: one of them wins.

Trap 8, through the real owners and the real processor; the rules themselves are proved in tests/property.
"""

from __future__ import annotations

import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from ingress import limits
from tests.eventually import becomes
from tests.worlds.public_system import merchant, public

if TYPE_CHECKING:
    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["merchant", "public"]
pytestmark = pytest.mark.servers
AMOUNT, CAPTURED, DISPUTED = 10_000, 7_000, 3_000
CALLS = 8


def intent_of(caller: Merchant, intent_id: str) -> dict[str, Any]:
    """Or what is said instead of it, when Postgres is late."""
    return dict(caller.fresh(f"/v1/payment_intents/{intent_id}").json())


def captured_in_part(caller: Merchant) -> str:
    """7000 of 10000, the rest released."""
    made: str = caller.create(amount=AMOUNT, capture_method="manual").json()["result"]["id"]
    assert caller.act(made, "confirm").status_code == 200
    becomes(lambda: intent_of(caller, made).get("state"), "requires_capture", 60)
    captured = caller.act(made, "capture", payload={"amount": CAPTURED, "final": True})
    assert captured.status_code == 200, captured.text
    becomes(lambda: intent_of(caller, made).get("state"), "succeeded", 60)
    return made


def refund(caller: Merchant, intent_id: str, amount: int) -> httpx.Response:
    """Over a connection of its own; a busy machine may take longer than callers wait by default."""
    waits = f"wait={limits.RESULT_WAIT_MAX_S}"
    headers = {"Connection": "close", "Authorization": caller.http.headers["authorization"], "Prefer": waits}
    body = {"idempotency_key": uuid.uuid4().hex, "payload": {"payment_intent": intent_id, "amount": amount}}
    return httpx.post(f"{caller.http.base_url}/v1/refunds", json=body, headers=headers, timeout=60, trust_env=False)


def race(caller: Merchant, intent_id: str, amount: int) -> Counter[tuple[int, str | None]]:
    """Many refunds of one amount at once; how each was answered."""
    with ThreadPoolExecutor(CALLS) as pool:
        answers = list(pool.map(lambda _: refund(caller, intent_id, amount), range(CALLS)))
    return Counter((answer.status_code, answer.json().get("code")) for answer in answers)


def test_one_refund_gets_the_last_of_what_neither_bank_nor_payer_has(public: PublicSystem, merchant: Merchant) -> None:
    intent = captured_in_part(merchant)
    opened = httpx.post(
        f"{public.settings.addresses().processor_url}/disputes",
        json={"reference": intent, "amount": DISPUTED},
        timeout=30,
        trust_env=False,
    )
    assert opened.status_code == 201, opened.text
    becomes(lambda: intent_of(merchant, intent).get("amount_disputed"), DISPUTED, 60)
    left = CAPTURED - DISPUTED
    past_the_cap = (422, "amount_exceeds_refundable")
    assert race(merchant, intent, left - 1) == {(201, None): 1, past_the_cap: CALLS - 1}
    assert race(merchant, intent, 1) == {(201, None): 1, past_the_cap: CALLS - 1}
    becomes(lambda: intent_of(merchant, intent).get("amount_refunded"), left, 60)
    # a settlement file that another test asks for tells of this payment too
    booked = "select kind, count(*) from ledger_txn where aggregate_key = %s and kind <> 'settled' group by 1"
    assert dict(public.rows(booked, intent)) == {
        "authorize": 1,
        "capture": 1,
        "dispute_withdrawn": 1,
        "refund": 2,
        "refund_succeeded": 2,
    }
