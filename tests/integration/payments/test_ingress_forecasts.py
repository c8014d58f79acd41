"""Reads that take along what they name, and dry runs, over HTTP: the same as the single reads, and nothing done."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.payments.test_ingress_refunds import REFUNDS, paid, refund, refused, settled
from tests.worlds.public_system import merchant, public, stranger

if TYPE_CHECKING:
    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["merchant", "public", "stranger"]  # the fixtures of this module
pytestmark = pytest.mark.servers


def test_what_a_read_takes_along(merchant: Merchant, stranger: Merchant) -> None:
    """``expand[]``: the attempt, refunds and disputes of a payment, and the payment of a refund, as their own reads show."""
    intent = paid(merchant, 900)
    made = [settled(merchant, refund(merchant, intent["id"], amount=n).json()["result"]["id"]) for n in (100, 200)]
    path = f"/v1/payment_intents/{intent['id']}"
    wanted = {"expand[]": ["latest_attempt", "refunds", "disputes"]}
    answer = merchant.http.get(path, params=wanted)
    found = answer.json()
    assert found | dict.fromkeys(wanted["expand[]"]) == merchant.http.get(path).json() | dict.fromkeys(
        wanted["expand[]"]
    )
    assert (found["latest_attempt"]["object"], found["latest_attempt"]["kind"]) == ("processor_attempt", "refund")
    assert found["refunds"] == {"data": made[::-1], "has_more": False}
    assert found["disputes"] == {"data": [], "has_more": False}
    assert "etag" not in answer.headers
    one = f"{REFUNDS}/{made[0]['id']}"
    assert merchant.http.get(one, params={"expand[]": "payment_intent"}).json()["payment_intent"]["id"] == intent["id"]
    assert stranger.http.get(path, params=wanted).status_code == 404
    refused(merchant.http.get(path, params={"expand[]": "card"}), 422, "invalid_command")
    untried = merchant.create().json()["result"]["id"]
    unpaid = merchant.http.get(f"/v1/payment_intents/{untried}", params={"expand[]": "latest_attempt"}).json()
    assert unpaid["latest_attempt"] is None


def test_a_dry_run_tells_and_does_nothing(public: PublicSystem, merchant: Merchant, stranger: Merchant) -> None:
    """The answer of the call itself, flagged; then the very same key does it, as if it had never been asked."""
    intent = paid(merchant, 900)
    key = uuid.uuid4().hex
    body = {"idempotency_key": key, "payload": {"payment_intent": intent["id"], "amount": 300}}

    def stored() -> list[Any]:
        scope = merchant.name
        return public.rows("select count(*) from idempotency where merchant_id = %s", scope) + public.rows(
            "select version from payment_intent where id = %s", intent["id"]
        )

    before = stored()
    would = merchant.http.post(REFUNDS, params={"dry_run": "true"}, json=body)
    assert (would.status_code, would.json()["dry_run"], would.json()["result"]["amount"]) == (200, True, 300)
    assert "etag" not in would.headers
    over = body | {"payload": body["payload"] | {"amount": 901}}  # type: ignore[operator] # a mapping
    problem = refused(
        merchant.http.post(REFUNDS, params={"dry_run": "true"}, json=over), 422, "amount_exceeds_refundable"
    )
    assert (problem["dry_run"], problem["refundable"]) == (True, 900)
    refused(stranger.http.post(REFUNDS, params={"dry_run": "true"}, json=body), 404, "not_found")
    assert stored() == before
    done = merchant.http.post(REFUNDS, json=body)
    assert (done.status_code, "dry_run" in done.json(), "idempotency-replayed" in done.headers) == (201, False, False)
    assert would.json()["result"]["id"] == done.json()["result"]["id"]


def test_a_dry_run_is_never_taken_for_the_real_thing(merchant: Merchant) -> None:
    lines = b'{"operation": "POST /v1/payment_intents", "idempotency_key": "k", "payload": {"amount": 1, "currency": "USD"}}'
    headers = {"Content-Type": "application/x-ndjson"}
    refused(merchant.http.post("/v1/commands?dry_run=true", content=lines, headers=headers), 400, "malformed_request")
    wrong = merchant.http.post("/v1/payment_intents?dry_run=yes", json=merchant.envelope())
    refused(wrong, 422, "invalid_command")
    assert merchant.http.get("/v1/payment_intents").json()["data"] == []
