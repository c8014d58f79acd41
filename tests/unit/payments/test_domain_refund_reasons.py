"""What is said of a refund: why it is pending, exactly while it is; and words that fit no refund, which are for people."""

from __future__ import annotations

import pytest

from dataflows.payments.domain import commands
from dataflows.payments.domain.decision import Context, Decision
from dataflows.payments.domain.policies.fees import FeeSchedule
from schemas.payments import facts
from tests.unit.payments.test_domain_refunds import only
from tests.worlds.payments import payment_cases as cases


def test_why_it_is_pending_is_said_while_it_is_and_follows_the_processor() -> None:
    payment = cases.refunding(4_000)
    assert only(payment).pending_reason == "processing"
    for reason in ("insufficient_funds", "charge_pending"):
        payment = cases.told(payment, "pending", pending_reason=reason)
        assert (only(payment).state, only(payment).pending_reason) == ("pending", reason)
        again = cases.fact(payment, "pending", pending_reason=reason)
        assert cases.refused(payment, again).code == "stale_fact"
        assert cases.refused(payment, cases.fact(payment, "pending")).code == "stale_fact", "nothing said, nothing new"
    doubted = cases.told(payment, "unknown")
    assert only(doubted) == only(payment), "a doubt takes no knowledge away, and is no news of the refund"
    for status, state in (("refunded", "succeeded"), ("failed", "failed"), ("requires_action", "requires_action")):
        ended = cases.told(payment, status)
        assert (only(ended).state, only(ended).pending_reason) == (state, None)


def test_a_late_word_that_a_refund_is_pending_ends_no_wait_for_its_payer() -> None:
    """A webhook may be old; who asks learns what is true now, and is believed."""
    waiting = cases.told(cases.refunding(4_000), "requires_action")
    late = cases.fact(waiting, "pending", pending_reason="insufficient_funds")
    late.idempotency_key = facts.pending_key(waiting.attempts[2].operation_id, "insufficient_funds")
    assert cases.refused(waiting, late).code == "stale_fact"
    asked = cases.told(waiting, "pending", pending_reason="insufficient_funds")
    assert (only(asked).state, only(asked).pending_reason) == ("pending", "insufficient_funds")
    assert only(cases.told(waiting, "pending")).pending_reason == "processing"


@pytest.mark.parametrize("ended", ["refunded", "failed"])
@pytest.mark.parametrize("said", ["captured", "authorized", "voided"])
def test_a_charges_word_about_a_refund_that_ended_is_a_case_and_never_just_stale(ended: str, said: str) -> None:
    """Somebody's money moved, or somebody's books are wrong."""
    payment = cases.told(cases.refunding(4_000), ended)
    refusal = cases.refused(payment, cases.fact(payment, said))
    assert refusal.code == "contradicts_attempt"
    assert refusal.detail == f"The processor says {said}, of a refund that is {ended}."
    again = cases.refused(payment, cases.fact(payment, ended))
    assert again.code == "stale_fact", "what is known already is nobody's case"


def test_a_charges_word_about_an_open_refund_is_reviewed_by_people() -> None:
    reviewed = cases.told(cases.refunding(4_000), "captured")
    assert (reviewed.attempts[2].status, reviewed.attempts[2].error_code) == ("manual_review", "unexpected_status")
    assert (only(reviewed).state, only(reviewed).pending_reason) == ("pending", "processing")


def test_a_late_success_fits_to_the_last_cent_and_counts_from_what_was_refunded() -> None:
    """6,000 of 10,000 went back before; the 4,000 that had been refused did too, and the fee of both."""
    payment = cases.told(cases.refunding(4_000), "failed")
    payment = cases.told(cases.refunding(6_000, payment, key="r2"), "refunded")
    left = payment.intent.amount_pending
    context = Context(now=1, fees=FeeSchedule(returns_platform_fee=True), processor=cases.PROCESSOR)
    late = commands.decide(payment, cases.fact(payment, "refunded", number=2), context)
    assert isinstance(late, Decision)
    assert (late.intent.amount_refunded, late.intent.amount_pending) == (10_000, 0)
    assert 0 < left < 4_000
    (posting,) = late.postings
    returned = [e.credit - e.debit for e in posting.entries if e.account_id == "platform_fee_income:USD"]
    assert returned == [-60], "1.5 % of the 4,000"
