"""A payment at Stripe from our API to its books: the attempt worker speaks, Stripe's own mock checks every request."""

from __future__ import annotations

import hashlib
import hmac
import json
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
from tests.worlds.payments.stripe_account import FOR_PAYER, stripe_account
from tests.worlds.public_system import Merchant, PublicSystem, system_of_its_own

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.payments.stripe_account import StripeAccount

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def at_stripe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PublicSystem, StripeAccount]]:
    """Services of its own with one processor, and no more of them than its payments need."""
    with stripe_mock.running() as mock, stripe_account(mock) as (url, account):
        changes = {
            "services": ("owner", "ingress", "processor_worker", "webhook_worker"),
            "owner_processes": 1,
            "ingress_processes": 1,
            "processors": ("stripe",),
            "processor_urls": {"stripe": url},
            "processor_secrets": {"stripe": SecretStr(stripe_mock.API_KEY)},
        }
        with system_of_its_own(tmp_path_factory.mktemp("stripe"), **changes) as system:
            yield system, account


def test_a_hold_grows_is_captured_and_refunded_once_each(at_stripe: tuple[PublicSystem, StripeAccount]) -> None:
    public, account = at_stripe
    merchant = public.merchant()
    created = merchant.create(payment_method="pm_card_visa", capture_method="manual").json()["result"]
    path = f"/v1/payment_intents/{created['id']}"

    def reaches(state: str, **fields: Any) -> None:
        def reached() -> bool:
            found = merchant.http.get(path).json()
            return bool({"state": state, **fields}.items() <= found.items())

        eventually(reached, within_s=60, what=f"the payment is {state}")

    assert act(merchant, created["id"], "confirm")["state"] == "processing"
    reaches("requires_capture", amount_capturable=1_099)
    act(merchant, created["id"], "increment_authorization", amount=1_500)
    reaches("requires_capture", amount_capturable=1_500)
    act(merchant, created["id"], "capture", amount=1_400)
    reaches("succeeded", amount_received=1_400)
    asked = {"idempotency_key": "r1", "payload": {"payment_intent": created["id"], "amount": 400}}
    refund = merchant.http.post("/v1/refunds", json=asked).json()["result"]
    becomes(
        lambda: merchant.http.get(f"/v1/refunds/{refund['id']}").json()["state"],
        "succeeded",
        within_s=60,
        what="the refund",
    )
    told = {
        "description": "Twelve glasses",
        "receipt_email": "ada@example.org",
        "return_url": "https://shop.example/back",
    }
    asked = {"payment_method": "pm_card_visa", "statement_descriptor": "ORDER 7"} | told
    purchase = merchant.create(**asked).json()["result"]
    assert purchase.items() >= asked.items()
    path = f"/v1/payment_intents/{purchase['id']}"
    act(merchant, purchase["id"], "confirm")
    reaches("succeeded", amount_received=1_099)

    assert account.effects == {"charge": 2, "increment": 1, "capture": 1, "refund": 1}
    (held, bought) = account.intents.values()
    assert {name: bought[name] for name in FOR_PAYER} == told | {"statement_descriptor_suffix": "ORDER 7"}
    assert not held.keys() & FOR_PAYER
    assert (held["amount"], held["amount_received"], bought["amount_received"]) == (1_500, 1_400, 1_099)
    assert [(r["amount"], r["payment_intent"]) for r in account.refunds.values()] == [
        (400, next(iter(account.intents)))
    ]
    rows = public.rows("select kind, status, processor, provider_ref from processor_attempt where intent_id = %s order by 1", created["id"])  # fmt: skip
    assert [row[:3] for row in rows] == [
        ("authorize", "authorized", "stripe"),
        ("capture", "captured", "stripe"),
        ("increment", "authorized", "stripe"),
        ("refund", "refunded", "stripe"),
    ]
    assert {row[3] for row in rows} == {*list(account.intents)[:1], *account.refunds}
    merchant.http.close()


def test_a_dispute_that_only_names_stripes_payment_is_of_ours_also_when_its_dispatch_row_is_gone(
    at_stripe: tuple[PublicSystem, StripeAccount],
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


def test_readiness_says_whose_commands_nobody_decides(at_stripe: tuple[PublicSystem, StripeAccount]) -> None:
    """Of this system's services only payments have owners; it is served, and what waits is named."""
    public, _ = at_stripe
    idle = {service.name: list(range(service.partitions)) for service in SERVICES if service.name != "payments"}
    becomes(
        lambda: httpx.get(f"{public.base_url}/readyz", trust_env=False, timeout=30).json(),
        {"status": "degraded", "without_owner": idle},
        within_s=60,
        what="every partition of payments has an owner, and no other",
    )


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
