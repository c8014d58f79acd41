"""Refunds of payments that were captured in parts: each works on one capture, and has its room."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.worlds.payments import payment_cases as cases

if TYPE_CHECKING:
    from dataflows.payments.domain.decision import Payment


def captured_in(*amounts: int, **said: object) -> Payment:
    """An authorization that was taken in parts; attempt 2 is the first of them."""
    payment = cases.authorized()
    for amount in amounts:
        payment = cases.told(cases.after(payment, cases.capture(amount, final=False)), "captured", **said)
    return payment


def parent_of(payment: Payment, amount: int) -> int:
    """The number of the capture that a refund of so much would work on."""
    decision = cases.decided(payment, cases.refund(amount, key=f"r{amount}"))
    assert decision.attempt is not None
    (number,) = (a.attempt for a in payment.attempts.values() if a.provider_ref == decision.attempt.parent_ref)
    return number


def test_a_refund_works_on_a_capture_with_room_for_it() -> None:
    payment = captured_in(3_000, 7_000)
    payment = cases.refunding(5_000, payment)
    payment = cases.refunding(2_500, payment, key="r2")
    payment = cases.refunding(2_000, payment, key="r3")
    parents = [a.parent_ref for a in payment.attempts.values() if a.kind == "refund"]
    assert parents == ["pr_3", "pr_2", "pr_3"]


def test_a_refund_is_refused_that_no_one_capture_has_room_for() -> None:
    """Its processor would decline it: the room that is told is what can be asked for at once."""
    payment = captured_in(3_000, 7_000)
    for asked in (None, 7_001):
        over = cases.refused(payment, cases.refund(asked))
        assert (over.code, over.extra) == ("amount_exceeds_refundable", {"refundable": 7_000})
    assert over.detail == "At most 7000 can be refunded at once, of 10000: a refund works on one capture."
    payment = cases.refunding(7_000, payment)
    assert cases.refused(payment, cases.refund(3_001, key="r2")).extra == {"refundable": 3_000}
    payment = cases.refunding(None, payment, key="r2")
    assert [a.amount for a in payment.attempts.values() if a.kind == "refund"] == [7_000, 3_000]


def test_captures_that_the_processor_calls_by_one_name_are_given_back_at_once() -> None:
    """Stripe takes refunds of the payment, however many captures it had."""
    payment = captured_in(3_000, 7_000, provider_ref="pi_stripe")
    assert cases.refunding(None, payment).attempts[4].amount == 10_000


@pytest.mark.parametrize(("amount", "parent"), [(1, 2), (3_000, 2), (3_001, 3), (6_500, 3)])
def test_a_refund_works_on_the_first_capture_with_room(amount: int, parent: int) -> None:
    assert parent_of(captured_in(3_000, 6_500), amount) == parent


def test_only_refunds_that_count_take_room() -> None:
    payment = cases.after(captured_in(3_000, 6_500), cases.refund(2_000, key="first"))
    assert (parent_of(payment, 1_000), parent_of(payment, 1_001)) == (2, 3)
    failed = cases.told(payment, "failed")
    assert parent_of(failed, 3_000) == 2
