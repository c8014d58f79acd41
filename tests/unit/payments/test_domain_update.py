"""What was agreed on may change until a processor was asked; and refunds that wait for their payer."""

from __future__ import annotations

import pytest
from msgspec import structs

from dataflows.payments.domain.decision import Payment
from tests.each import each
from tests.worlds.payments import payment_cases as cases

UNPAID = cases.after(None, cases.create(method=None))
READY = cases.after(None, cases.create())
DECLINED = cases.told(cases.after(READY, cases.confirm()), "declined")


def test_fields_that_are_given_change_and_the_others_stay() -> None:
    decision = cases.decided(READY, cases.update(amount=7, metadata={"order": "1"}))
    assert decision.amended
    expected = structs.replace(READY.intent, amount=7, metadata={"order": "1"}, version=2)
    assert decision.intent == structs.replace(expected, updated_at=decision.intent.updated_at)
    changed = cases.decided(READY, cases.update(currency="JPY", capture_method="manual")).intent
    assert (changed.currency, changed.capture_method, changed.amount) == ("JPY", "manual", cases.AMOUNT)


@pytest.mark.parametrize("before", [UNPAID, READY, DECLINED], ids=["unpaid", "ready", "declined"])
def test_a_payment_method_makes_it_ready_to_confirm(before: Payment) -> None:
    after = cases.after(before, cases.update(method="tok_new"))
    assert (after.intent.state, after.intent.payment_method) == ("requires_confirmation", "tok_new")
    assert cases.after(before, cases.update(metadata={})).intent.state == before.intent.state


@pytest.mark.parametrize("changes", [{"amount": 1}, {"currency": "JPY"}, {"capture_method": "manual"}])
def test_what_a_processor_was_asked_for_stays(changes: dict[str, object]) -> None:
    """Its late success must still be of this payment: a capture of another currency could not be posted."""
    assert cases.refused(DECLINED, cases.update(**changes)).code == "state_conflict"
    late = cases.after(DECLINED, cases.fact(DECLINED, "captured"))
    assert (late.intent.state, late.intent.amount_received) == ("succeeded", late.intent.amount)


@each("state", cases.in_every_state().keys())
def test_only_before_it_is_confirmed(state: str) -> None:
    payment = cases.in_every_state()[state]
    if state in ("requires_payment_method", "requires_confirmation"):
        assert cases.refused(payment, cases.update()).code == "invalid_command"
    else:
        assert cases.refused(payment, cases.update(metadata={"k": "v"})).code == "state_conflict"


def refund_of(payment: Payment) -> str:
    (refund,) = payment.refunds.values()
    return f"{refund.state} {payment.attempts[refund.attempt].status}"


WAITING = cases.told(cases.refunding(4_000), "requires_action")


def test_a_refund_waits_for_its_payer_and_counts_against_the_cap() -> None:
    assert refund_of(WAITING) == "requires_action requires_action"
    assert cases.refused(WAITING, cases.refund(6_001, key="more")).extra == {"refundable": 6_000}
    assert WAITING.intent.version == cases.refunding(4_000).intent.version + 1


@pytest.mark.parametrize(
    ("said", "then"),
    [("pending", "pending pending"), ("refunded", "succeeded refunded"), ("failed", "failed failed")],
)
def test_what_comes_after_the_payer_acted(said: str, then: str) -> None:
    assert refund_of(cases.told(WAITING, said)) == then
    assert refund_of(cases.told(cases.told(cases.refunding(4_000), "pending"), "requires_action")) == refund_of(WAITING)


def test_people_look_at_an_answer_that_is_none_and_silence_says_nothing() -> None:
    assert refund_of(cases.told(WAITING, "refunded", amount=1)) == "pending manual_review"
    assert cases.refused(WAITING, cases.fact(WAITING, "unknown")).code == "stale_fact"


def test_a_waiting_refund_may_be_canceled_and_the_money_that_moved_after_all_wins() -> None:
    (refund_id,) = WAITING.refunds
    canceled = cases.after(WAITING, cases.cancel_refund(refund_id))
    assert refund_of(canceled) == "canceled failed"
    late = cases.decided(canceled, cases.fact(canceled, "refunded"))
    assert late.refund is not None
    assert (late.refund.state, late.intent.amount_refunded) == ("succeeded", 4_000)
    assert cases.refused(canceled, cases.fact(canceled, "captured")).code == "contradicts_attempt"
