"""Disputes over HTTP: the merchant's own, in stable pages, as they are; and journal entries, which are nobody's own."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from schemas import identity
from schemas.payments.operations import OPERATIONS
from schemas.records import Command
from schemas.senders import speaks_for
from sinks.kafka.delivery import command_letter, why_not_delivered
from tests.eventually import eventually
from tests.integration.payments.test_ingress_refunds import UNKNOWN_INTENT, paid, refund, refused
from tests.worlds.payments.repair_world import posted_by_hand
from tests.worlds.public_system import merchant, public, stranger

if TYPE_CHECKING:
    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["merchant", "public", "stranger"]  # the fixtures of this module
pytestmark = pytest.mark.servers

DISPUTES = "/v1/disputes"


def produce(
    public: PublicSystem, operation: str, scope: str, key: str, aggregate_key: str, payload: dict[str, Any]
) -> None:
    """A fact as one of our own workers tells it: durable when this returns."""
    template = OPERATIONS[operation].template
    command = Command(
        operation=operation,
        request_id=identity.derived_id("rq", scope, operation, key),
        idempotency_key=key,
        aggregate_key=aggregate_key,
        expected_version=None,
        scope=scope,
        request_hash=identity.request_hash(template, aggregate_key, payload),
        trace_id=uuid.uuid4().hex,
        issued_at=time.time_ns() // 1_000,
        deadline_at=0,
        reply_to=-1,
        reply_id=0,
        payload=payload,
    )
    may = OPERATIONS[operation].senders
    kafka = public.settings.kafka_as(next((role for role in may if speaks_for(role, scope)), may[0]))
    letter = command_letter(kafka, command)
    assert why_not_delivered(kafka, Producer(kafka.producer("test-facts")), [letter]) is None


def tell(
    public: PublicSystem,
    intent: dict[str, Any],
    ref: str,
    *,
    amount: int,
    status: str,
    funds: str,
    due_by: int | None = None,
) -> None:
    """What the processor says about a dispute. Its name for it is made unique with the payment's."""
    ref = f"{ref}_{intent['id']}"
    payload = {"provider_ref": ref, "status": status, "funds": funds, "amount": amount, "currency": intent["currency"]}
    payload |= {"fee": 0, "reason": "fraudulent", "evidence_due_by": due_by}
    key = f"{ref}:{status}:{funds}:{due_by}"
    produce(public, "record_dispute", f"processor:{intent['processor']}", key, intent["id"], payload)


def disputes(merchant: Merchant, **params: Any) -> list[dict[str, Any]]:
    answer = merchant.http.get(DISPUTES, params=params)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["data"])


def test_a_dispute_is_the_merchants_from_its_first_word_to_its_end(
    public: PublicSystem, merchant: Merchant, stranger: Merchant
) -> None:
    """It caps refunds while it is open, shows in events, and is nobody else's."""
    intent = paid(merchant, 8_000)
    tell(public, intent, "dsp", amount=5_000, status="needs_response", funds="withdrawn")
    (opened,) = eventually(lambda: disputes(merchant, payment_intent=intent["id"]), 20)
    assert opened["id"].startswith("dp_")
    assert {name: opened[name] for name in ("object", "payment_intent", "merchant_id", "amount", "currency")} == {
        "object": "dispute",
        "payment_intent": intent["id"],
        "merchant_id": merchant.name,
        "amount": 5_000,
        "currency": "USD",
    }
    assert (opened["state"], opened["funds"], opened["version"]) == ("needs_response", "withdrawn", 1)
    read = merchant.http.get(f"{DISPUTES}/{opened['id']}")
    assert (read.json(), read.headers["etag"]) == (opened, '"1"')
    assert merchant.http.get(read.url.path, headers={"If-None-Match": '"1"'}).status_code == 304
    assert merchant.http.get(f"/v1/payment_intents/{intent['id']}").json()["amount_disputed"] == 5_000
    over = refused(refund(merchant, intent["id"], amount=3_001), 422, "amount_exceeds_refundable")
    assert over["refundable"] == 3_000
    tell(public, intent, "dsp", amount=5_000, status="won", funds="reinstated")
    ended = eventually(lambda: [d for d in disputes(merchant) if d["state"] == "won"], 20)
    assert (ended[0]["id"], ended[0]["funds"], ended[0]["version"]) == (opened["id"], "reinstated", 2)
    told = [e["body"]["dispute"] for e in merchant.http.get("/v1/events").json()["data"] if e["body"].get("dispute")]
    assert told == [opened, ended[0]]
    assert disputes(stranger) == disputes(stranger, payment_intent=intent["id"]) == []
    foreign = stranger.http.get(f"{DISPUTES}/{opened['id']}")
    missing = stranger.http.get(f"{DISPUTES}/dp_unknown")
    assert (foreign.status_code, foreign.content) == (404, missing.content)


def test_the_deadline_for_evidence_is_the_merchants_to_see_in_reads_lists_and_events(
    public: PublicSystem, merchant: Merchant
) -> None:
    """It was extended once; what came late changes nothing back; it ends with what it is the deadline of."""
    intent = paid(merchant, 8_000)
    said = {"amount": 5_000, "status": "needs_response", "funds": "withdrawn"}
    for due_by in (4_000_000_000_000_001, 4_000_000_060_000_000, 4_000_000_000_000_000):
        tell(public, intent, "dsp", **said, due_by=due_by)
    tell(public, intent, "dsp", amount=5_000, status="under_review", funds="withdrawn", due_by=4_000_000_060_000_000)
    (ended,) = eventually(lambda: [d for d in disputes(merchant) if d["state"] == "under_review"], 20)
    told = [e["body"]["dispute"] for e in merchant.http.get("/v1/events").json()["data"] if e["body"].get("dispute")]
    assert [(d["version"], d["evidence_due_by"]) for d in told] == [
        (1, "2096-10-02T07:06:40.000001Z"),
        (2, "2096-10-02T07:07:40.000000Z"),
        (3, None),
    ]
    assert merchant.http.get(f"{DISPUTES}/{ended['id']}").json() == told[-1] == ended


def test_pages_of_disputes(public: PublicSystem, merchant: Merchant, stranger: Merchant) -> None:
    one, two = paid(merchant, 1_000), paid(merchant, 1_000)
    for n in range(3):
        for intent in (one, two):
            tell(public, intent, f"dsp{n}", amount=10 + n, status="warning_needs_response", funds="none")
    everything = eventually(lambda: d if len(d := disputes(merchant)) == 6 else None, 20)
    assert [d["created_at"] for d in everything] == sorted((d["created_at"] for d in everything), reverse=True)
    of_one = [d["id"] for d in everything if d["payment_intent"] == one["id"]]
    first = merchant.http.get(DISPUTES, params={"payment_intent": one["id"], "limit": 2}).json()
    assert ([d["id"] for d in first["data"]], first["has_more"]) == (of_one[:2], True)
    cursor = first["next_cursor"]
    assert [d["id"] for d in disputes(merchant, payment_intent=one["id"], cursor=cursor)] == of_one[2:]
    for caller, params in (
        (merchant, {"cursor": cursor}),
        (merchant, {"cursor": cursor, "payment_intent": two["id"]}),
        (stranger, {"cursor": cursor, "payment_intent": one["id"]}),
        (merchant, {"cursor": ("B" if cursor[0] == "A" else "A") + cursor[1:], "payment_intent": one["id"]}),
    ):
        refused(caller.http.get(DISPUTES, params=params), 400, "malformed_request")
    assert disputes(merchant, payment_intent=UNKNOWN_INTENT) == []
    for params in ({"limit": "0"}, {"limit": "x"}, {"payment_intent": "a\u0000"}):
        refused(merchant.http.get(DISPUTES, params=params), 422, "invalid_command")


def test_a_journal_entry_is_nobodys_event(public: PublicSystem, merchant: Merchant) -> None:
    """It moves the merchant's money and says so in its balance; its event is the ledger's, whatever a merchant's name is."""
    accounts = (f"merchant_available:{merchant.name}:USD", "cash:bank:USD")
    entries = [
        {"account_id": accounts[0], "debit": 70, "credit": 0, "currency": "USD"},
        {"account_id": accounts[1], "debit": 0, "credit": 70, "currency": "USD"},
    ]
    posted_by_hand(public, entries)
    balances = merchant.http.get("/v1/balance").json()["data"]
    assert balances == [{"currency": "USD", "pending": 0, "available": -70, "reserved": 0}]
    assert merchant.http.get("/v1/events").json()["data"] == []
    with public.merchant("ledger").http as somebody:
        assert somebody.get("/v1/events").json()["data"] == []
