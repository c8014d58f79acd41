"""A payment at Stripe from our API to its books: the attempt worker speaks, Stripe's own mock checks every request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr

from compose.settings import Settings
from compose.stack.errors import StackError
from compose.supervise import launch
from tests import stripe_mock
from tests.conftest import servers_missing
from tests.eventually import becomes, eventually
from tests.public_system import Merchant, PublicSystem
from tests.stripe_account import stripe_account

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.stripe_account import StripeAccount

pytestmark = [pytest.mark.servers, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def at_stripe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PublicSystem, StripeAccount]]:
    """A stack of its own with one processor."""
    with stripe_mock.running() as mock, stripe_account(mock) as (url, account):
        settings = Settings(
            home=tmp_path_factory.mktemp("stripe"),
            owner_processes=1,
            ingress_processes=1,
            processors=("stripe",),
            processor_urls={"stripe": url},
            processor_secrets={"stripe": SecretStr(stripe_mock.API_KEY)},
        )
        try:
            world = launch.world(settings, launch.up(settings, tied=True))
        except StackError as error:
            servers_missing(str(error))
        yield PublicSystem(settings, world["base_url"]), account
        launch.down(settings)


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
    purchase = merchant.create(payment_method="pm_card_visa").json()["result"]
    path = f"/v1/payment_intents/{purchase['id']}"
    act(merchant, purchase["id"], "confirm")
    reaches("succeeded", amount_received=1_099)

    assert account.effects == {"charge": 2, "increment": 1, "capture": 1, "refund": 1}
    (held, bought) = account.intents.values()
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


def act(merchant: Merchant, intent_id: str, verb: str, **payload: Any) -> dict[str, Any]:
    """The payment as its owner answers."""
    answer = merchant.act(intent_id, verb, payload=payload)
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()["result"]
    return result
