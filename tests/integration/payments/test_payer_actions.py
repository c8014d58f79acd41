"""Payers' actions, holds that grow and end, and evidence, on the whole system with the simulator."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from schemas import identity
from tests.eventually import becomes, eventually
from tests.worlds.payments.repair_world import no_gaps
from tests.worlds.public_system import merchant, public

if TYPE_CHECKING:
    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["merchant", "public"]
pytestmark = pytest.mark.servers


def intent(merchant: Merchant, intent_id: str) -> dict[str, Any]:
    return dict(merchant.http.get(f"/v1/payment_intents/{intent_id}").json())


def reaches(merchant: Merchant, intent_id: str, state: str) -> dict[str, Any]:
    becomes(lambda: intent(merchant, intent_id)["state"], state, 60, what=state)
    return intent(merchant, intent_id)


def confirmed(merchant: Merchant, token: str, **payload: Any) -> str:
    intent_id = str(merchant.create(payment_method=token, **payload).json()["result"]["id"])
    assert merchant.act(intent_id, "confirm").status_code == 200
    return intent_id


def lever(public: PublicSystem, path: str, **body: Any) -> httpx.Response:
    return httpx.post(f"{public.settings.addresses().processor_url}{path}", json=body, timeout=20, trust_env=False)


def book(public: PublicSystem, section: str, reference: str) -> list[dict[str, Any]]:
    found = httpx.get(f"{public.settings.addresses().processor_url}/book", timeout=20, trust_env=False).json()
    return [entry for entry in found[section] if entry["reference"] == reference]


def test_a_payment_waits_for_its_payer_and_ends_as_the_payer_does(public: PublicSystem, merchant: Merchant) -> None:
    done, failed, canceled = (confirmed(merchant, "tok_sim_requires_action", amount=4_000) for _ in range(3))
    for intent_id in (done, failed, canceled):
        waiting = reaches(merchant, intent_id, "requires_action")
        assert waiting["next_action"]["url"].endswith(identity.operation_id(intent_id, 1))
    assert merchant.act(canceled, "cancel").json()["result"]["state"] == "canceled"
    for intent_id, outcome in ((done, "done"), (failed, "failed"), (canceled, "done")):
        assert lever(public, f"/actions/{identity.operation_id(intent_id, 1)}", outcome=outcome).status_code == 200
    assert reaches(merchant, done, "succeeded")["next_action"] is None
    assert reaches(merchant, failed, "requires_payment_method")["last_payment_error"] == {
        "code": "authentication_failed"
    }
    # The payer of the canceled payment was quicker: the money is taken, and goes back by itself.
    becomes(lambda: intent(merchant, canceled)["amount_refunded"], 4_000, 60, what="given back")
    assert intent(merchant, canceled)["state"] == "canceled"
    assert len(book(public, "captured", canceled)) == len(book(public, "refunded", canceled)) == 1
    # ... and a person hears of it, once.
    cases = "select kind, state, processor, evidence ->> 'amount', evidence ->> 'refund' from repair_case where reference = %s"
    ((kind, state, _, amount, refund),) = public.rows(cases, canceled)
    assert (kind, state, amount, refund[:3]) == ("late_capture", "open", "4000", "re_")
    assert public.rows("select from repair_case where reference in (%s, %s)", done, failed) == []
    assert book(public, "captured", failed) == []


def test_a_hold_heard_of_after_the_cancel_is_released_at_the_processor(
    public: PublicSystem, merchant: Merchant
) -> None:
    intent_id = confirmed(merchant, "tok_sim_requires_action", amount=900, capture_method="manual")
    reaches(merchant, intent_id, "requires_action")
    merchant.act(intent_id, "cancel")
    lever(public, f"/actions/{identity.operation_id(intent_id, 1)}", outcome="done")
    becomes(lambda: len(book(public, "voided", intent_id)), 1, 60, what="voided")
    eventually(lambda: intent(merchant, intent_id)["version"] >= 6, 30, what="the release is known")
    assert (intent(merchant, intent_id)["state"], intent(merchant, intent_id)["amount_capturable"]) == ("canceled", 0)


def test_a_hold_grows_and_its_end_keeps_what_was_captured(public: PublicSystem, merchant: Merchant) -> None:
    intent_id = confirmed(merchant, "tok_sim_approve", amount=1_000, capture_method="manual")
    assert reaches(merchant, intent_id, "requires_capture")["authorized_until"] is not None
    too_little = merchant.act(intent_id, "increment_authorization", payload={"amount": 1_000})
    assert (too_little.status_code, too_little.json()["code"]) == (422, "amount_not_higher")
    assert merchant.act(intent_id, "increment_authorization", payload={"amount": 1_500}).status_code == 200
    grown = reaches(merchant, intent_id, "requires_capture")
    assert (grown["amount"], grown["amount_capturable"]) == (1_500, 1_500)
    assert sorted(entry["amount"] for entry in book(public, "authorized", intent_id)) == [500, 1_000]
    merchant.act(intent_id, "capture", payload={"amount": 400, "final": False})
    reaches(merchant, intent_id, "requires_capture")
    released = lever(public, f"/holds/{identity.operation_id(intent_id, 1)}/expire").json()
    assert released["released"] == 1_100
    ended = reaches(merchant, intent_id, "succeeded")
    assert (ended["amount_received"], ended["amount_capturable"], ended["authorized_until"]) == (400, 0, None)


def test_a_refused_increment_leaves_the_hold_and_time_ends_it(public: PublicSystem, merchant: Merchant) -> None:
    refused = confirmed(merchant, "tok_sim_increment_declined", amount=700, capture_method="manual")
    short = confirmed(merchant, "tok_sim_short_hold", amount=700, capture_method="manual")
    reaches(merchant, refused, "requires_capture")
    merchant.act(refused, "increment_authorization", payload={"amount": 800})
    eventually(lambda: intent(merchant, refused)["last_payment_error"] is not None, 60, what="refused")
    held = reaches(merchant, refused, "requires_capture")
    assert (held["amount"], held["amount_capturable"]) == (700, 700)
    assert reaches(merchant, short, "canceled")["cancellation_reason"] == "expired"


def test_our_clock_has_a_hold_released_when_the_processor_says_nothing(
    public: PublicSystem, merchant: Merchant
) -> None:
    """The processor holds the money past the time that it said, until it is asked to let go."""
    intent_id = confirmed(merchant, "tok_sim_stubborn_hold", amount=800, capture_method="manual")
    assert reaches(merchant, intent_id, "canceled")["cancellation_reason"] == "expired"
    assert [entry["amount"] for entry in book(public, "voided", intent_id)] == [800]
    query = "select key from idempotency where key like %s and status = 'committed'"
    asked = public.rows(query, f"{identity.operation_id(intent_id, 1)}:release:%")
    assert asked == [(f"{identity.operation_id(intent_id, 1)}:release:0",)]


def test_a_refund_waits_for_its_payer_and_may_be_canceled(public: PublicSystem, merchant: Merchant) -> None:
    intent_id = confirmed(merchant, "tok_sim_refund_requires_action", amount=2_000)
    reaches(merchant, intent_id, "succeeded")
    made = []
    for amount in (500, 700):
        body = {"idempotency_key": uuid.uuid4().hex, "payload": {"payment_intent": intent_id, "amount": amount}}
        made.append(merchant.http.post("/v1/refunds", json=body).json()["result"]["id"])
    first, second = (f"/v1/refunds/{refund_id}" for refund_id in made)
    for path in (first, second):
        becomes(lambda p=path: merchant.http.get(p).json()["state"], "requires_action", 60, what="waits")
    canceled = merchant.http.post(f"{second}/cancel", json={"idempotency_key": uuid.uuid4().hex, "payload": {}})
    assert canceled.json()["result"]["state"] == "canceled"
    assert lever(public, f"/actions/{identity.operation_id(intent_id, 2)}", outcome="done").status_code == 200
    becomes(lambda: merchant.http.get(first).json()["state"], "succeeded", 60, what="refunded")
    assert intent(merchant, intent_id)["amount_refunded"] == 500


def test_a_refund_says_why_it_is_pending(public: PublicSystem, merchant: Merchant) -> None:
    intent_id = confirmed(merchant, "tok_sim_refund_pending", amount=2_000)
    reaches(merchant, intent_id, "succeeded")
    body = {"idempotency_key": uuid.uuid4().hex, "payload": {"payment_intent": intent_id}}
    made = merchant.http.post("/v1/refunds", json=body).json()["result"]
    assert (made["state"], made["pending_reason"]) == ("pending", "processing")
    path = f"/v1/refunds/{made['id']}"
    becomes(lambda: merchant.http.get(path).json()["pending_reason"], "insufficient_funds", 60, what="the reason")
    assert merchant.http.get(path).json()["state"] == "pending"
    heard = "select state from provider_event where event_type = 'refund.pending' and reference = %s"
    eventually(
        lambda: public.rows(heard, intent_id) in ([("applied",)], [("superseded",)]), 60, what="the webhook has its end"
    )
    assert lever(public, f"/actions/{identity.operation_id(intent_id, 2)}", outcome="done").status_code == 200
    becomes(lambda: merchant.http.get(path).json()["state"], "succeeded", 60, what="refunded")
    assert merchant.http.get(path).json()["pending_reason"] is None
    told = merchant.http.get("/v1/events?limit=100").json()["data"]
    refunds = [e["body"].get("refund") for e in told if e["aggregate_key"] == intent_id]
    said = [refund["pending_reason"] for refund in refunds if refund]
    assert said == ["processing", "insufficient_funds", None]


@pytest.mark.parametrize(("text", "verdict"), [("winning_evidence", "won"), ("losing_evidence", "lost")])
def test_evidence_is_drafted_submitted_once_and_decides(
    public: PublicSystem, merchant: Merchant, stranger_text: str, text: str, verdict: str
) -> None:
    intent_id = confirmed(merchant, "tok_sim_approve", amount=3_000)
    reaches(merchant, intent_id, "succeeded")
    provider_ref = lever(public, "/disputes", reference=intent_id, amount=3_000).json()["id"]
    listed = f"/v1/disputes?payment_intent={intent_id}"
    eventually(lambda: merchant.http.get(listed).json()["data"] != [], 60, what="told of")
    path = f"/v1/disputes/{merchant.http.get(listed).json()['data'][0]['id']}"

    def say(submit: bool, **evidence: str) -> httpx.Response:
        body = {"idempotency_key": uuid.uuid4().hex, "payload": {"evidence": evidence, "submit": submit}}
        return merchant.http.post(f"{path}/evidence", json=body)

    becomes(lambda: merchant.http.get(path).json()["funds"], "withdrawn", 60, what="withdrawn")
    assert say(False, receipt=stranger_text).json()["result"]["evidence_state"] == "draft"
    assert say(True, uncategorized_text=text).status_code == 200
    becomes(lambda: merchant.http.get(path).json()["evidence_state"], "submitted", 60, what="submitted")
    becomes(lambda: merchant.http.get(path).json()["state"], "under_review", 60, what="under review")
    assert say(True, receipt="more").json()["code"] == "state_conflict"
    assert stranger_text not in merchant.http.get(path).text
    (kept,) = book(public, "disputes", intent_id)
    assert kept["evidence"] == {"receipt": stranger_text, "uncategorized_text": text}
    lever(public, f"/disputes/{provider_ref}/close", outcome="lost" if verdict == "won" else "won")
    becomes(lambda: merchant.http.get(path).json()["state"], verdict, 60, what=verdict)


@pytest.fixture
def stranger_text() -> str:
    """A text that stands nowhere else."""
    return f"receipt {uuid.uuid4().hex}"


def test_what_was_agreed_on_changes_until_a_processor_is_asked(merchant: Merchant) -> None:
    made = merchant.create(amount=500).json()["result"]

    def change(key: str | None = None, expected_version: int | None = None, **payload: Any) -> httpx.Response:
        body = {"idempotency_key": key or uuid.uuid4().hex, "payload": payload, "expected_version": expected_version}
        return merchant.http.post(f"/v1/payment_intents/{made['id']}", json=body)

    changed = change("c1", 1, amount=650, metadata={"order": "7"})
    assert changed.status_code == 200
    assert change("c1", 1, amount=650, metadata={"order": "7"}).json() == changed.json()
    assert (change(None, 1, amount=1).json()["code"], change().json()["code"]) == (
        "version_conflict",
        "invalid_command",
    )
    shown = intent(merchant, made["id"])
    assert (shown["amount"], shown["metadata"], shown["version"]) == (650, {"order": "7"}, 2)
    assert merchant.act(made["id"], "confirm", payload={"payment_method": "tok_sim_decline"}).status_code == 200
    reaches(merchant, made["id"], "requires_payment_method")
    assert change(amount=1).json()["code"] == "state_conflict"
    assert change(payment_method="tok_sim_approve").json()["result"]["state"] == "requires_confirmation"
    assert merchant.act(made["id"], "confirm").status_code == 200
    assert reaches(merchant, made["id"], "succeeded")["amount_received"] == 650


def test_all_of_that_leaves_no_gap(public: PublicSystem, merchant: Merchant) -> None:
    """The invariants over everything above, and the processor's book against the ledger."""
    ended = confirmed(merchant, "tok_sim_approve", amount=600, capture_method="manual")
    reaches(merchant, ended, "requires_capture")
    lever(public, f"/holds/{identity.operation_id(ended, 1)}/expire")
    reaches(merchant, ended, "canceled")
    eventually(lambda: no_gaps(public), 90, what="no gaps")
