"""What events of other processors than the simulator mean in our words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dataflows.payments.webhooks import vocabulary
from dataflows.payments.webhooks.findings import AttemptOutcome, DisputeChange, Nothing, Unknown, Unreadable
from dataflows.payments.webhooks.inbox_store import keys_of
from dataflows.payments.webhooks.steps import AttemptSeen, Case, Seen
from schemas.payments import facts, limits
from tests.unit.payments.test_webhook_steps import CHARGE, INTENT, REFUND, due, seen, step


def stripe_object(**fields: Any) -> bytes:
    return json.dumps({"data": {"object": {"id": "pi_3", "currency": "usd", "amount": 1_000} | fields}}).encode()


@pytest.mark.parametrize(
    ("event_type", "fields", "status", "amount"),
    [
        ("payment_intent.succeeded", {"amount_received": 900}, "captured", 900),
        ("payment_intent.amount_capturable_updated", {"amount_capturable": 1_000}, "authorized", 1_000),
        ("payment_intent.payment_failed", {"last_payment_error": {"decline_code": "lost_card"}}, "declined", 1_000),
        ("payment_intent.canceled", {}, "voided", 1_000),
        ("refund.updated", {"status": "succeeded"}, "refunded", 1_000),
        ("refund.failed", {"status": "failed", "failure_balance_transaction": "txn_1"}, "failed", 1_000),
    ],
)
def test_stripes_words(event_type: str, fields: dict[str, Any], status: str, amount: int) -> None:
    found = vocabulary.read("stripe", event_type, stripe_object(metadata={"operation_id": CHARGE}, **fields))
    assert isinstance(found, AttemptOutcome)
    assert (found.operation_id, found.status, found.amount, found.currency) == (CHARGE, status, amount, "USD")
    assert found.after_success == (event_type == "refund.failed")
    assert found.error_code == ("lost_card" if status == "declined" else None)


@pytest.mark.parametrize(
    ("url", "told"), [("https://hooks.stripe.com/3d", True), ("javascript:alert(1)", False), (7, False)]
)
def test_a_payers_action_comes_with_an_address_or_without(url: object, told: bool) -> None:
    action = {"redirect_to_url": {"url": url}}
    raw = stripe_object(metadata={"operation_id": CHARGE}, next_action=action)
    found = vocabulary.read("stripe", "payment_intent.requires_action", raw)
    assert isinstance(found, AttemptOutcome)
    assert (found.status, found.redirect_url) == ("requires_action", url if told else None)


def test_of_several_captures_the_event_of_the_last_one_is_not_their_sum() -> None:
    """The sum would be an amount that nobody asked for, and the payment a person's to clear up."""
    several = {"operation_id": CHARGE, CHARGE: "400", f"{CHARGE}0": "600"}
    only = {"operation_id": CHARGE, CHARGE: "400"}
    for metadata, amount in ((several, 400), (only, 1_000)):
        raw = stripe_object(metadata=metadata, amount_received=1_000)
        found = vocabulary.read("stripe", "payment_intent.succeeded", raw)
        assert isinstance(found, AttemptOutcome)
        assert found.amount == amount


def test_a_hold_that_a_processor_let_end_is_about_the_authorization() -> None:
    raw = stripe_object(metadata={"operation_id": CHARGE}, cancellation_reason="automatic")
    stripe = vocabulary.read("stripe", "payment_intent.canceled", raw)
    item = {"merchantReference": CHARGE, "pspReference": "psp_1", "success": "true", "reason": "x"}
    adyen = vocabulary.read("adyen", "EXPIRE", json.dumps(item).encode())
    for found in (stripe, adyen):
        assert isinstance(found, AttemptOutcome)
        assert (found.status, found.error_code, found.only_kind) == ("voided", "expired", "authorize")


@pytest.mark.parametrize(
    ("event_type", "status", "said"),
    [
        ("charge.requires_action", "requires_action", {"redirect_url": "https://acs.example/1"}),
        ("refund.requires_action", "requires_action", {}),
        ("charge.expired", "voided", {"error_code": "expired"}),
        ("charge.authorized", "authorized", {"authorized_until_ms": 1_900_000_000_000}),
    ],
)
def test_the_simulators_words_of_actions_and_holds(event_type: str, status: str, said: dict[str, Any]) -> None:
    data = {"operation_id": CHARGE, "provider_ref": "sim_1", "amount": 5, "currency": "USD", **said}
    found = vocabulary.read("simulator", event_type, json.dumps({"data": data}).encode())
    assert isinstance(found, AttemptOutcome)
    assert (found.status, found.redirect_url, found.error_code) == (
        status,
        said.get("redirect_url"),
        said.get("error_code"),
    )
    assert found.authorized_until == (1_900_000_000_000_000 if "authorized_until_ms" in said else None)


def test_a_refund_under_way_says_nothing_yet() -> None:
    raw = stripe_object(status="pending", metadata={"operation_id": REFUND})
    assert isinstance(vocabulary.read("stripe", "refund.created", raw), Nothing)


@pytest.mark.parametrize("event_type", ["refund.created", "refund.updated", "charge.refund.updated"])
def test_a_refund_that_says_why_it_is_pending_is_one_fact_per_reason(event_type: str) -> None:
    told = []
    for reason in ("insufficient_funds", "processing"):
        raw = stripe_object(status="pending", pending_reason=reason, metadata={"operation_id": REFUND})
        command = step(due(event_type, raw, "stripe"), seen(processor="stripe")).command
        assert command is not None
        assert (command.payload["status"], command.payload["pending_reason"]) == ("pending", reason)
        told.append(command.idempotency_key)
        assert keys_of(vocabulary.read("stripe", event_type, raw)) == told[-1:], "what is told is looked for again"
    assert told == [facts.pending_key(REFUND, r) for r in ("insufficient_funds", "processing")]
    data = {"operation_id": REFUND, "provider_ref": "sim_1", "amount": 5, "currency": "USD"}
    raw = json.dumps({"data": data | {"pending_reason": "insufficient_funds"}}).encode()
    ours = step(due("refund.pending", raw), seen()).command
    assert ours is not None
    assert (ours.idempotency_key, ours.payload["pending_reason"]) == (told[0], "insufficient_funds")
    new = stripe_object(status="pending", pending_reason="of_tomorrow", metadata={"operation_id": REFUND})
    assert isinstance(vocabulary.read("stripe", event_type, new), Nothing)


@pytest.mark.parametrize(
    ("moves", "funds", "fee"),
    [([], "none", 0), ([(-1_000, 1_500)], "withdrawn", 1_500), ([(-1_000, 1_500), (1_000, 0)], "reinstated", 1_500)],
)
def test_the_money_of_a_stripe_dispute_is_read_from_its_balance_transactions(
    moves: list[tuple[int, int]], funds: str, fee: int
) -> None:
    transactions = [{"amount": amount, "fee": fee, "currency": "usd"} for amount, fee in moves]
    raw = stripe_object(
        id="dp_1", status="needs_response", balance_transactions=transactions, metadata={"reference": INTENT}
    )
    found = vocabulary.read("stripe", "charge.dispute.updated", raw)
    assert isinstance(found, DisputeChange)
    assert (found.intent_id, found.provider_ref, found.funds, found.fee) == (INTENT, "dp_1", funds, fee)


@pytest.mark.parametrize(
    ("currency", "of_move", "said", "fee"),
    [
        ("jpy", "eur", 1_500, 0),  # 15.00 euros are no 1500 yen
        ("usd", None, 1_500, 0),
        ("jpy", "jpy", 1_500, 1_500),
        ("isk", "isk", 150_000, 1_500),  # Stripe counts it in hundredths, and ISO 4217 has none
    ],
)
def test_the_fee_of_a_stripe_dispute_is_taken_in_the_disputes_own_currency_only(
    currency: str, of_move: str | None, said: int, fee: int
) -> None:
    """Any other one comes with its settlement line, in the currency of the settlement."""
    move = {"amount": -900, "fee": said} | ({} if of_move is None else {"currency": of_move})
    raw = stripe_object(
        id="dp_1", status="needs_response", amount=100_000, currency=currency, balance_transactions=[move],
        metadata={"reference": INTENT},
    )  # fmt: skip
    found = vocabulary.read("stripe", "charge.dispute.updated", raw)
    assert isinstance(found, DisputeChange)
    assert (found.funds, found.fee) == ("withdrawn", fee)


def test_money_that_stripe_takes_once_more_is_a_dispute_of_its_own() -> None:
    """As at Adyen: the first one was won, and is over. In whatever order the transactions are listed."""
    moves = [(-1_000, 1_500, 10), (1_000, 0, 20), (-1_000, 1_700, 30), (1_000, 0, 40)]
    told = [{"amount": a, "fee": fee, "created": at, "currency": "usd"} for a, fee, at in moves]
    found = []
    for count in range(1, 5):
        raw = stripe_object(
            id="dp_1", status="lost", metadata={"reference": INTENT}, balance_transactions=told[:count][::-1]
        )
        change = vocabulary.read("stripe", "charge.dispute.updated", raw)
        assert isinstance(change, DisputeChange)
        found.append((change.provider_ref, change.funds, change.fee))
    assert found == [
        ("dp_1", "withdrawn", 1_500),
        ("dp_1", "reinstated", 1_500),
        ("dp_1:2", "withdrawn", 1_700),
        ("dp_1:2", "reinstated", 1_700),
    ]


@pytest.mark.parametrize("payment", ["pi_stripes", {"id": "pi_stripes", "object": "payment_intent"}])
def test_a_stripe_dispute_without_anything_of_ours_names_stripes_payment(payment: object) -> None:
    """That is what a real one looks like; until the payment is known by that name it waits, then it is a person's."""
    raw = stripe_object(id="dp_1", status="needs_response", payment_intent=payment, charge="ch_1", metadata={})
    found = vocabulary.read("stripe", "charge.dispute.created", raw)
    assert isinstance(found, DisputeChange)
    assert (found.intent_id, found.charge_ref, found.provider_ref) == ("", "pi_stripes", "dp_1")
    waits = step(due("charge.dispute.created", raw, "stripe"), seen(processor="stripe"))
    assert (waits.state, waits.command) == ("parked", None)
    late = step(due("charge.dispute.created", raw, "stripe", age_s=limits.WEBHOOK_PARKED_MAX_S + 1), Seen())
    assert (late.state, late.case) == ("case", Case(kind="unknown_reference", reference="pi_stripes"))


def test_a_stripe_dispute_about_nothing_is_a_persons() -> None:
    raw = stripe_object(id="dp_1", status="needs_response", charge="ch_1")
    assert vocabulary.read("stripe", "charge.dispute.created", raw) == Unknown("dp_1")


@pytest.mark.parametrize(("kind", "status"), [("purchase", "captured"), ("authorize", "authorized")])
def test_adyens_authorisation_is_the_success_of_whatever_charge_it_was(kind: str, status: str) -> None:
    item = {
        "merchantReference": CHARGE,
        "pspReference": "psp1",
        "success": "true",
        "amount": {"value": 1_000, "currency": "USD"},
    }
    world = Seen(
        attempts={(INTENT, 1): AttemptSeen(operation_id=CHARGE, kind=kind, status="created", processor="adyen")}
    )
    command = step(due("AUTHORISATION", json.dumps(item).encode(), "adyen"), world).command
    assert command is not None
    assert command.payload["status"] == status
    refused = step(
        due("AUTHORISATION", json.dumps(item | {"success": "false", "reason": "Refused"}).encode(), "adyen"), world
    )
    assert refused.command is not None
    assert (refused.command.payload["status"], refused.command.payload["error_code"]) == ("declined", "Refused")
    assert step(due("REFUND", json.dumps(item).encode(), "adyen"), world).state == "superseded", "of another operation"


def test_a_second_chargeback_at_adyen_is_a_dispute_of_its_own() -> None:
    """It takes the money of the first one, which was won, once more; the reference is that of the first."""
    item = {"merchantReference": CHARGE, "pspReference": "DSP1", "amount": {"value": 1_000, "currency": "EUR"}}
    found = {}
    for event_type in ("CHARGEBACK", "CHARGEBACK_REVERSED", "SECOND_CHARGEBACK"):
        change = vocabulary.read("adyen", event_type, json.dumps(item).encode())
        assert isinstance(change, DisputeChange), change
        found[event_type] = (change.provider_ref, change.status, change.funds)
    assert found == {
        "CHARGEBACK": ("DSP1", "needs_response", "withdrawn"),
        "CHARGEBACK_REVERSED": ("DSP1", "won", "reinstated"),
        "SECOND_CHARGEBACK": ("DSP1:second", "lost", "withdrawn"),
    }


def test_what_is_nested_too_deep_for_a_parser_is_unreadable() -> None:
    """The gateway refuses it; one that lies in the inbox nevertheless would end whoever reads it, again and again."""
    body = b'{"data":' + b"[" * 5_000 + b"]" * 5_000 + b"}"
    assert isinstance(vocabulary.read("stripe", "charge.refunded", body), Unreadable)
