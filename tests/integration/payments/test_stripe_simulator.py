"""The account at Stripe that tests pay at: one effect for a key, whatever kills it, and every request as Stripe allows it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import httpx
import pytest

from dataflows.payments.attempts.adapter import Answer, Definitive, RequiresAction, Unknown
from dataflows.payments.attempts.stripe_adapter import StripeAdapter
from tests.unit.payments.test_attempts_settlement import CALL
from tests.worlds.payments import stripe_mock
from tests.worlds.payments.attempts_world import free_port
from tests.worlds.payments.stripe_account import StripeAccount, running

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.servers
PAYMENT = {"amount": "1000", "currency": "usd", "payment_method": "pm_card_visa", "confirm": "true"}
HOLD = PAYMENT | {"capture_method": "manual", "payment_method_options[card][request_multicapture]": "if_available"}


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StripeAccount]:
    with running(tmp_path_factory.mktemp("stripe"), free_port()) as started:
        yield started


def payment(reference: str, of: dict[str, str] = PAYMENT, **changes: str) -> dict[str, str]:
    return of | {"metadata[reference]": reference, "metadata[operation_id]": f"op_{reference}"} | changes


def reported(account: StripeAccount, name: str) -> list[tuple[str, ...]]:
    """Category, gross, fee and operation of each line of one payment, oldest first."""
    rows = [row.split(",") for row in account.report().decode().splitlines()[1:]]
    return [(row[6], row[3], row[4], row[13]) for row in rows if row[9] == name]


@pytest.mark.faults
def test_what_is_on_disk_when_it_dies_is_answered_once_more_and_done_once(account: StripeAccount) -> None:
    """Killed between the effect and its answer: the worst moment of a processor."""
    asked = payment("killed")
    account.lever("die")
    with pytest.raises(httpx.TransportError):
        account.post("/v1/payment_intents", "k1", **asked)
    account.restart_when_dead()
    first, again = (account.post("/v1/payment_intents", "k1", **asked) for _ in range(2))
    assert first.headers["Idempotent-Replayed"] == "true"
    assert (first.json()["status"], first.content) == ("succeeded", again.content)
    assert account.booked("killed") == {"captured": [1_000]}
    other = account.post("/v1/payment_intents", "k1", **asked | {"amount": "999"})
    assert (other.status_code, other.json()["error"]["type"]) == (400, "idempotency_error")
    told = [e["data"]["object"]["id"] for e in account.get("/v1/events", limit=100)["data"]]
    assert told.count(first.json()["id"]) == 1


def test_captures_in_parts_refunds_and_a_dispute_move_the_balance_as_the_report_says(account: StripeAccount) -> None:
    held = account.post("/v1/payment_intents", "p1", **payment("parts", HOLD)).json()
    path = f"/v1/payment_intents/{held['id']}"
    first = {"amount_to_capture": 300, "final_capture": "false", "metadata[operation_id]": "op_2"}
    assert account.post(f"{path}/capture", "p2", **first).json()["amount_capturable"] == 700
    assert account.post(f"{path}/capture", "p9", amount_to_capture=701).status_code == 400
    done = account.post(f"{path}/capture", "p3", amount_to_capture=200, **{"metadata[operation_id]": "op_3"}).json()
    assert (done["status"], done["amount_received"], done["amount_capturable"]) == ("succeeded", 500, 0)
    assert account.post(f"{path}/cancel", "p4").json()["error"]["code"] == "payment_intent_unexpected_state"
    named = {"payment_intent": held["id"], "metadata[reference]": "parts"}
    refund = account.post("/v1/refunds", "p5", amount=100, **named).json()
    assert account.post("/v1/refunds", "p6", amount=401, **named).status_code == 400
    dispute = account.lever("disputes", payment_intent=held["id"], amount=50)
    assert account.booked("parts") == {"authorized": [1_000], "captured": [200, 300], "refunded": [100]}
    account.lever(f"refunds/{refund['id']}", outcome="failed")
    account.lever(f"disputes/{dispute['id']}", outcome="won")
    assert account.booked("parts") == {"authorized": [1_000], "captured": [200, 300]}
    assert reported(account, held["id"]) == [
        ("charge", "3.00", "0.39", "op_2"),
        ("charge", "2.00", "0.36", "op_3"),
        ("refund", "-1.00", "0.00", ""),
        ("dispute", "-0.50", "15.00", ""),
        ("refund_failure", "1.00", "0.00", ""),
        ("dispute_reversal", "0.50", "0.00", ""),
    ]


def test_one_capture_of_a_part_is_told_as_the_whole_and_what_was_not_taken(account: StripeAccount) -> None:
    held = account.post("/v1/payment_intents", "o1", **payment("one part", HOLD)).json()["id"]
    account.post(f"/v1/payment_intents/{held}/capture", "o2", amount_to_capture=400)
    lines = [(category, gross) for category, gross, *_ in reported(account, held)]
    assert lines == [("charge", "10.00"), ("partial_capture_reversal", "-6.00")]


def test_a_payer_is_asked_and_comes_back_where_the_merchant_said(account: StripeAccount) -> None:
    asked = payment("payer", payment_method="pm_card_threeDSecure2Required")
    for key, back, outcome, kind in (
        ("a1", "https://shop.example/?a=1", "done", "redirect_to_url"),
        ("a2", None, "failed", "use_stripe_sdk"),
    ):
        told = account.post("/v1/payment_intents", key, **asked, **({"return_url": back} if back else {})).json()
        assert (told["status"], told["next_action"]["type"]) == ("requires_action", kind)
        location = account.lever(f"payers/{told['id']}", outcome=outcome)["location"]
        assert location == (back and f"{back}&payment_intent={told['id']}&redirect_status=succeeded")
    assert account.booked("payer") == {"captured": [1_000]}
    declined = account.post("/v1/payment_intents", "a3", **payment("no", payment_method="pm_card_chargeDeclined"))
    assert (declined.status_code, declined.json()["error"]["decline_code"]) == (402, "generic_decline")


@pytest.mark.parametrize(("payer", "status"), [(None, "canceled"), ("done", "succeeded")])
def test_a_wait_for_the_payer_is_ended_unless_the_payer_was_quicker(
    account: StripeAccount, payer: str | None, status: str
) -> None:
    """Stripe itself would wait for ever. What a refused cancel means, a later query says."""
    call = replace(CALL, operation_id=f"op_wait_{payer}_1", payment_method="pm_card_threeDSecure2Required")

    async def ended() -> tuple[RequiresAction, Answer, Answer]:
        adapter = StripeAdapter(account.url, stripe_mock.API_KEY, "stripe")
        try:
            waits = await adapter.send(call)
            assert isinstance(waits, RequiresAction), waits
            if payer:
                account.lever(f"payers/{waits.provider_ref}", outcome=payer)
            gone = await adapter.end_wait(call, replace(waits, provider_ref="pi_of_nobody"))
            return waits, gone, await adapter.end_wait(call, waits)
        finally:
            await adapter.close()

    waits, gone, answer = asyncio.run(ended())
    assert gone == Unknown("refused_resource_missing"), "what refuses the question says nothing of the payment"
    assert account.get(f"/v1/payment_intents/{waits.provider_ref}")["status"] == status
    if payer:
        assert answer == Unknown("payment_intent_unexpected_state")
    else:
        assert isinstance(answer, Definitive)
        assert (answer.status, answer.provider_ref, answer.error_code) == ("failed", waits.provider_ref, "canceled")
