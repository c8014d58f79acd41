"""A payment at Stripe from our API to its books: the attempt worker speaks, Stripe's own mock checks every request."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import signal
import time
import uuid
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest
from pydantic import SecretStr

from schemas.payments.processors import NAMED_BY_CHARGE
from schemas.services import SERVICES
from sinks.postgres.sql_files import queries
from tests.eventually import becomes, eventually
from tests.worlds.payments import stripe_mock
from tests.worlds.payments.attempts_world import free_port
from tests.worlds.payments.repair_world import millrace
from tests.worlds.payments.stripe_account import StripeAccount, running
from tests.worlds.public_system import Merchant, PublicSystem, system_of_its_own

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.servers


At = tuple[PublicSystem, StripeAccount]


@pytest.fixture(scope="module")
def at_stripe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[At]:
    """Services of its own with one processor, and no more of them than its payments need."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    changes = {
        "services": ("owner", "ingress", "processor_worker", "webhook_worker"),
        "owner_processes": 1,
        "ingress_processes": 1,
        "processors": ("stripe",),
        "processor_urls": {"stripe": url},
        "processor_books": {"stripe": url},
        "processor_secrets": {"stripe": SecretStr(stripe_mock.API_KEY)},
    }
    with stripe_mock.running() as mock, system_of_its_own(tmp_path_factory.mktemp("stripe"), **changes) as system:
        told = ("--mock-url", mock, "--webhook-url", f"{system.base_url}/v1/webhooks/stripe")
        secret = system.settings.webhook_secrets()["stripe"]
        with running(tmp_path_factory.mktemp("account"), port, *told, secret=secret) as account:
            yield system, account


def test_a_challenged_payment_is_captured_in_two_parts_refunded_and_reconciled(at_stripe: At, tmp_path: Path) -> None:
    """From the create to the report of the payout: the account's own book and ours say the same."""
    public, account = at_stripe
    merchant = public.merchant()
    card = "pm_card_threeDSecure2Required"
    paid = merchant.create(payment_method=card, capture_method="manual", amount=5_000).json()["result"]["id"]
    act(merchant, paid, "confirm", return_url="https://shop.example/back?order=7")
    asked = reaches(merchant, paid, "requires_action")
    assert asked["return_url"] == "https://shop.example/back?order=7"
    assert asked["next_action"]["type"] == "redirect_to_url"
    at_theirs = asked["next_action"]["url"].rpartition("/")[2]
    back = account.lever(f"payers/{at_theirs}", outcome="done")["location"]
    assert back == f"https://shop.example/back?order=7&payment_intent={at_theirs}&redirect_status=succeeded"
    reaches(merchant, paid, "requires_capture", amount_capturable=5_000)
    act(merchant, paid, "capture", amount=3_000, final=False)
    reaches(merchant, paid, "requires_capture", amount_capturable=2_000, amount_received=3_000)
    act(merchant, paid, "capture", amount=1_500)
    reaches(merchant, paid, "succeeded", amount_received=4_500)
    refunded(merchant, paid, 1_000)
    other = merchant.create(payment_method=card).json()["result"]["id"]
    act(merchant, other, "confirm")  # nowhere to come back to: the merchant's page does it with Stripe's script
    action = reaches(merchant, other, "requires_action")["next_action"]
    assert (action["type"], action["url"]) == ("use_stripe_sdk", None)
    account.lever(f"payers/{action['details']['client_secret'].partition('_secret_')[0]}", outcome="failed")
    assert reaches(merchant, other, "requires_payment_method")["next_action"] is None
    assert account.booked(paid) == {"authorized": [5_000], "captured": [1_500, 3_000], "refunded": [1_000]}
    assert account.booked(other) == {}

    report = tmp_path / "payouts.csv"
    report.write_bytes(account.report())
    done = millrace(public, "reconcile", "--file", str(report), "--format", "stripe", "--json")
    lines = json.loads(done.stdout)
    assert [d for d in lines["discrepancies"] if d["reference"] == paid] == []
    assert (done.returncode, lines["posted"]["undecided"]) == (0, 0), done.stdout
    books_agree(public)
    merchant.http.close()


@pytest.mark.faults
def test_nothing_is_lost_or_doubled_when_the_account_and_the_worker_die(at_stripe: At) -> None:
    """The account dies with the effect on disk and its answer unsent; the worker while it asks what became of it."""
    public, account = at_stripe
    merchant = public.merchant()
    ids = [merchant.create(payment_method="pm_card_visa").json()["result"]["id"] for _ in range(6)]
    account.lever("die")
    for intent_id in ids:
        act(merchant, intent_id, "confirm")
    for pid in public.pids("processor_worker"):
        os.kill(pid, signal.SIGKILL)
    account.restart_when_dead()
    for intent_id in ids:
        reaches(merchant, intent_id, "succeeded", amount_received=1_099)
    assert [account.booked(intent_id) for intent_id in ids] == [{"captured": [1_099]}] * len(ids)
    books_agree(public)
    merchant.http.close()


def test_a_hold_grows_is_captured_and_refunded_once_each(at_stripe: At) -> None:
    public, account = at_stripe
    merchant = public.merchant()
    created = merchant.create(payment_method="pm_card_visa", capture_method="manual").json()["result"]
    assert act(merchant, created["id"], "confirm")["state"] == "processing"
    reaches(merchant, created["id"], "requires_capture", amount_capturable=1_099)
    act(merchant, created["id"], "increment_authorization", amount=1_500)
    reaches(merchant, created["id"], "requires_capture", amount_capturable=1_500)
    act(merchant, created["id"], "capture", amount=1_400)
    reaches(merchant, created["id"], "succeeded", amount_received=1_400)
    refunded(merchant, created["id"], 400)
    told = {
        "description": "Twelve glasses",
        "receipt_email": "ada@example.org",
        "return_url": "https://shop.example/back",
    }
    asked = {"payment_method": "pm_card_visa", "statement_descriptor": "ORDER 7"} | told
    purchase = merchant.create(**asked).json()["result"]
    assert purchase.items() >= asked.items()
    act(merchant, purchase["id"], "confirm")
    reaches(merchant, purchase["id"], "succeeded", amount_received=1_099)

    assert account.booked(created["id"]) == {"authorized": [401, 1_099], "captured": [1_400], "refunded": [400]}
    assert account.booked(purchase["id"]) == {"captured": [1_099]}
    (of_it,) = public.rows("select provider_ref from processor_attempt where intent_id = %s", purchase["id"])
    bought = account.get(f"/v1/payment_intents/{of_it[0]}")
    del told["return_url"]  # of a card that asks nobody, Stripe keeps none
    assert bought.items() >= {"statement_descriptor_suffix": "ORDER 7", **told}.items()
    rows = public.rows("select kind, status, processor, provider_ref from processor_attempt where intent_id = %s order by 1", created["id"])  # fmt: skip
    assert [row[:3] for row in rows] == [
        ("authorize", "authorized", "stripe"),
        ("capture", "captured", "stripe"),
        ("increment", "authorized", "stripe"),
        ("refund", "refunded", "stripe"),
    ]
    assert len({row[3] for row in rows}) == 2, "the payment, and its refund"
    merchant.http.close()


def test_a_dispute_that_only_names_stripes_payment_is_of_ours_also_when_its_dispatch_row_is_gone(
    at_stripe: At,
) -> None:
    """Nothing of a real dispute is ours: no metadata, ids of Stripe's own, months after the charge."""
    public, _ = at_stripe
    merchant = public.merchant()
    bought = merchant.create(payment_method="pm_card_visa").json()["result"]["id"]
    act(merchant, bought, "confirm")
    eventually(lambda: merchant.http.get(f"/v1/payment_intents/{bought}").json()["state"] == "succeeded", within_s=60)
    ((named,),) = public.rows("select provider_ref from processor_attempt where intent_id = %s", bought)
    taken = {"amount": -1_099, "fee": 1_500}
    stripe_tells(public, "charge.dispute.funds_withdrawn", named, "needs_response", [taken])
    eventually(lambda: disputes(merchant, bought) == [("needs_response", "withdrawn", 1_099)], within_s=60)
    done = "select 1 from attempt_dispatch where intent_id = %s and status = 'done'"
    eventually(lambda: public.rows(done, bought), within_s=60, what="the worker heard that the payment succeeded")

    pruned = queries("sinks.postgres.queries.payments", "attempts.sql")["attempts_prune"]
    parameters = {"kept_s": 0, "count": 1_000, "named_by_charge": list(NAMED_BY_CHARGE)}
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_worker"]) as connection:
        assert connection.execute(pruned.encode(), parameters).fetchall()[0][0] >= 1
    assert public.rows("select from attempt_dispatch where intent_id = %s", bought) == []
    stripe_tells(public, "charge.dispute.funds_reinstated", {"id": named}, "won", [taken, {"amount": 1_099, "fee": 0}])
    eventually(lambda: disputes(merchant, bought) == [("won", "reinstated", 1_099)], within_s=60)
    assert public.rows("select from repair_case where processor = 'stripe'") == []
    merchant.http.close()


def test_readiness_says_whose_commands_nobody_decides(at_stripe: At) -> None:
    """Of this system's services only payments have owners; it is served, and what waits is named."""
    public, _ = at_stripe
    idle = {service.name: list(range(service.partitions)) for service in SERVICES if service.name != "payments"}
    becomes(
        lambda: httpx.get(f"{public.base_url}/readyz", trust_env=False, timeout=30).json(),
        {"status": "degraded", "without_owner": idle},
        within_s=60,
        what="every partition of payments has an owner, and no other",
    )


def reaches(merchant: Merchant, intent_id: str, state: str, **fields: Any) -> dict[str, Any]:
    """The payment as soon as it is so."""
    found: dict[str, Any] = {}

    def reached() -> bool:
        found.update(merchant.http.get(f"/v1/payment_intents/{intent_id}").json())
        return bool({"state": state, **fields}.items() <= found.items())

    eventually(reached, within_s=60, what=f"the payment is {state}")
    return found


def refunded(merchant: Merchant, intent_id: str, amount: int) -> None:
    """Gives a part back and waits until it is."""
    asked = {"idempotency_key": uuid.uuid4().hex, "payload": {"payment_intent": intent_id, "amount": amount}}
    refund = merchant.http.post("/v1/refunds", json=asked).json()["result"]["id"]
    becomes(lambda: merchant.http.get(f"/v1/refunds/{refund}").json()["state"], "succeeded", 60, what="the refund")


def books_agree(public: PublicSystem) -> None:
    """What the account booked is what the ledger says, both ways; and the ledger is sound."""
    numbers = ("1", "2", "6", "7", "8", "9", "10", "15", "19")
    done = millrace(public, "check", *(word for n in numbers for word in ("--only", n)), "--json")
    assert done.returncode == 0, done.stdout + done.stderr


def disputes(merchant: Merchant, intent_id: str) -> list[tuple[str, str, int]]:
    """State, funds and amount of each."""
    found = merchant.http.get("/v1/disputes", params={"payment_intent": intent_id}).json()["data"]
    return [(one["state"], one["funds"], one["amount"]) for one in found]


def stripe_tells(
    public: PublicSystem, event_type: str, payment: object, status: str, moves: list[dict[str, int]]
) -> None:
    """A dispute as Stripe sends it, signed."""
    dispute = {"id": "dp_of_stripe", "object": "dispute", "payment_intent": payment, "charge": "ch_1", "metadata": {},
               "amount": 1_099, "currency": "usd", "reason": "fraudulent", "status": status,
               "balance_transactions": moves}  # fmt: skip
    body = json.dumps({"id": f"evt_{uuid.uuid4().hex}", "type": event_type, "data": {"object": dispute}}).encode()
    secret, stamp = public.settings.webhook_secrets()["stripe"], int(time.time())
    mac = hmac.new(secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    headers = {"Stripe-Signature": f"t={stamp},v1={mac}", "Content-Type": "application/json"}
    answer = httpx.post(
        f"{public.base_url}/v1/webhooks/stripe", content=body, headers=headers, timeout=30, trust_env=False
    )
    assert answer.status_code == 200, answer.text


def act(merchant: Merchant, intent_id: str, verb: str, **payload: Any) -> dict[str, Any]:
    """The payment as its owner answers."""
    answer = merchant.act(intent_id, verb, payload=payload)
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()["result"]
    return result
