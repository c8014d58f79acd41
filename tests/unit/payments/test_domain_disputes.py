"""Disputes: states and funds that only go forward, in any order, and money that follows the funds."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import pytest
from msgspec import structs

from dataflows.payments.domain import commands
from dataflows.payments.domain.decision import Decision, Payment
from dataflows.payments.domain.dispute import FUNDS_RANK, STATE_RANK, counted
from schemas import identity
from schemas.payments import records
from schemas.payments.records import Dispute
from tests.each import each
from tests.worlds.payments import payment_cases as cases

PAID = cases.paid()
WITHDRAWN = {
    "dispute_receivable:simulator": 6_000,
    "merchant_available:m_1": 6_000,
    "dispute_fee_expense:simulator": 1_500,
    "processor_receivable:simulator": -7_500,
    "merchant_dispute_hold:m_1": -6_000,
}


def dispute(status: str, funds: str = "none", **said: object) -> cases.Command:
    return cases.dispute(status, funds, amount=6_000, **said)


def only(payment: Payment) -> Dispute:
    (found,) = payment.disputes.values()
    return found


def play(*facts: tuple[str, str]) -> tuple[Payment, dict[str, int], set[str]]:
    """The payment after these facts, what moved (debits minus credits), and the references of the postings."""
    payment, totals, references = PAID, Counter[str](), set()
    for status, funds in facts:
        decision = commands.decide(payment, dispute(status, funds), cases.CONTEXT)
        if isinstance(decision, Decision):
            payment = cases.apply(payment, decision)
            for posting in decision.postings:
                assert posting.reference not in references, "a fact posts once"
                references.add(posting.reference)
                for entry in posting.entries:
                    totals[entry.account_id.removesuffix(":USD")] += entry.debit - entry.credit
    return payment, {a: n for a, n in totals.items() if n}, references


def test_every_state_and_every_kind_of_funds_has_its_rank() -> None:
    assert set(STATE_RANK) == set(records.DisputeState.__args__)  # type: ignore[attr-defined]
    assert set(FUNDS_RANK) == set(records.DisputeFunds.__args__)  # type: ignore[attr-defined]
    assert len(set(STATE_RANK.values())) == len(STATE_RANK), "two ends of one rank would depend on their order"


def test_the_first_fact_makes_the_dispute() -> None:
    decision = cases.decided(PAID, dispute("needs_response"))
    made = decision.dispute
    assert made is not None
    assert made.id == identity.part_id("dp", cases.INTENT_ID, "simulator", "dis_1")
    assert (made.state, made.funds, made.amount, made.fee, made.version) == ("needs_response", "none", 6_000, 1_500, 1)
    assert (decision.postings, decision.intent.amount_disputed, decision.intent.state) == ((), 6_000, "succeeded")


def test_money_moves_with_the_funds_and_the_fee_stays() -> None:
    payment, totals, _ = play(("needs_response", "none"), ("needs_response", "withdrawn"))
    assert (only(payment).funds, only(payment).version, totals) == ("withdrawn", 2, WITHDRAWN)
    won, totals, _ = play(("needs_response", "withdrawn"), ("won", "reinstated"))
    assert totals == {"dispute_fee_expense:simulator": 1_500, "processor_receivable:simulator": -1_500}
    assert (won.intent.amount_disputed, only(won).state) == (0, "won")


def test_a_loss_clears_the_hold_and_the_claim() -> None:
    payment, totals, _ = play(("needs_response", "withdrawn"), ("lost", "withdrawn"))
    assert totals == {
        "merchant_available:m_1": 6_000,
        "dispute_fee_expense:simulator": 1_500,
        "processor_receivable:simulator": -7_500,
    }
    assert payment.intent.amount_disputed == 6_000


def test_an_appeal_takes_the_place_of_the_loss_and_claims_the_money_again() -> None:
    """Until it is decided the money is held as before the loss, and nobody else's."""
    payment, totals, references = play(("lost", "withdrawn"), ("appeal_needs_response", "withdrawn"))
    assert (only(payment).state, totals, payment.intent.amount_disputed) == ("appeal_needs_response", WITHDRAWN, 6_000)
    assert f"{only(payment).id}:appealed" in references


@pytest.mark.parametrize("path", [(), ("appeal_under_review",)], ids=["at once", "on appeal"])
def test_a_loss_whose_money_comes_back_is_won_and_may_be_refunded(path: tuple[str, ...]) -> None:
    appeals = [(state, "withdrawn") for state in path]
    payment, totals, _ = play(("lost", "withdrawn"), *appeals, ("lost", "reinstated"))
    assert (only(payment).state, only(payment).funds, payment.intent.amount_disputed) == ("won", "reinstated", 0)
    assert totals == {"dispute_fee_expense:simulator": 1_500, "processor_receivable:simulator": -1_500}
    assert isinstance(commands.decide(payment, cases.refund(cases.AMOUNT), cases.CONTEXT), Decision)


def test_what_an_earlier_release_left_lost_with_its_money_back_takes_nothing_of_the_refundable_amount() -> None:
    payment, _, _ = play(("won", "reinstated"))
    assert counted(structs.replace(only(payment), state="lost")) == 0


def test_a_merchant_that_cannot_cover_it_owes_it() -> None:
    """No write-off by itself: the balance goes below zero."""
    refunded = cases.told(cases.refunding(), "refunded")
    decision = cases.decided(refunded, cases.dispute("needs_response", "withdrawn"))
    assert [p.kind for p in decision.postings] == ["dispute_withdrawn"]
    assert decision.intent.amount_disputed == cases.AMOUNT


STORIES = {
    "won": (
        ("needs_response", "none"),
        ("needs_response", "withdrawn"),
        ("under_review", "withdrawn"),
        ("won", "reinstated"),
    ),
    "lost": (
        ("needs_response", "none"),
        ("needs_response", "withdrawn"),
        ("under_review", "withdrawn"),
        ("lost", "withdrawn"),
    ),
    "won first, money later": (("needs_response", "withdrawn"), ("won", "withdrawn"), ("won", "reinstated")),
    "lost, then given back": (("needs_response", "withdrawn"), ("lost", "withdrawn"), ("lost", "reinstated")),
    "inquiry that escalates": (
        ("warning_needs_response", "none"),
        ("warning_under_review", "none"),
        ("lost", "withdrawn"),
    ),
    "inquiry that is closed": (
        ("warning_needs_response", "none"),
        ("warning_under_review", "none"),
        ("warning_closed", "none"),
    ),
    "appealed and given back": (
        ("needs_response", "withdrawn"),
        ("lost", "withdrawn"),
        ("appeal_needs_response", "withdrawn"),
        ("appeal_under_review", "withdrawn"),
        ("won", "reinstated"),
    ),
    "appealed in vain": (("lost", "withdrawn"), ("appeal_under_review", "withdrawn"), ("lost", "withdrawn")),
    "two ends": (("won", "reinstated"), ("lost", "withdrawn"), ("prevented", "none")),
}


@each("story", STORIES)
def test_any_order_and_any_copies_end_alike(story: str) -> None:
    facts = STORIES[story]
    expected, totals, _ = play(*facts)
    for order in permutations(facts):
        payment, found, _ = play(*order, *order)
        assert found == totals, order
        assert (only(payment).state, only(payment).funds) == (only(expected).state, only(expected).funds), order
        assert payment.intent.amount_disputed == expected.intent.amount_disputed


@pytest.mark.parametrize(
    ("before", "late"),
    [
        (("won", "reinstated"), ("needs_response", "withdrawn")),
        (("needs_response", "withdrawn"), ("needs_response", "none")),
        (("under_review", "withdrawn"), ("needs_response", "withdrawn")),
        (("lost", "withdrawn"), ("won", "none")),
        (("warning_closed", "none"), ("warning_needs_response", "none")),
        (("appeal_under_review", "withdrawn"), ("lost", "withdrawn")),
    ],
)
def test_what_is_older_than_what_is_known_is_stale(before: tuple[str, str], late: tuple[str, str]) -> None:
    payment = cases.after(PAID, dispute(*before))
    refusal = cases.refused(payment, dispute(*late))
    assert (refusal.code, refusal.extra) == ("stale_fact", {"state": before[0], "funds": before[1]})


@pytest.mark.parametrize("status", ["lost", "appeal_needs_response", "appeal_under_review"])
def test_money_that_seems_to_be_taken_again_after_it_had_come_back_is_a_persons(status: str) -> None:
    """What is told that late looks the same: neither is posted, and neither is silent."""
    payment = cases.after(PAID, dispute("won", "reinstated"))
    refusal = cases.refused(payment, dispute(status, "withdrawn"))
    assert (refusal.code, refusal.extra) == ("contradicts_dispute", {"state": "won", "funds": "reinstated"})
    for older in ("needs_response", "under_review", "won"):
        assert cases.refused(payment, dispute(older, "withdrawn")).code == "stale_fact"


def test_a_fact_may_be_newer_in_one_of_the_two_only() -> None:
    payment, totals, _ = play(("won", "none"), ("needs_response", "withdrawn"))
    assert (only(payment).state, only(payment).funds, totals) == ("won", "withdrawn", WITHDRAWN)


def test_the_fee_is_the_one_that_was_taken() -> None:
    """Told without a fee, then with it, then with another one: only what was posted stands."""
    payment = cases.after(PAID, dispute("needs_response", fee=0))
    payment = cases.after(payment, dispute("needs_response", "withdrawn", fee=1_500))
    assert only(payment).fee == 1_500
    assert only(cases.after(payment, dispute("won", "reinstated", fee=9))).fee == 1_500


def test_several_disputes_add_up() -> None:
    payment = cases.after(PAID, cases.dispute("needs_response", amount=3_000))
    payment = cases.after(payment, cases.dispute("needs_response", amount=2_000, ref="dis_2"))
    assert payment.intent.amount_disputed == 5_000
    payment = cases.after(payment, cases.dispute("won", amount=3_000))
    assert payment.intent.amount_disputed == 2_000


def test_facts_that_are_about_something_else() -> None:
    payment = cases.after(PAID, dispute("needs_response"))
    assert cases.refused(payment, cases.dispute("lost", amount=5_999)).code == "contradicts_dispute"
    assert cases.refused(PAID, dispute("lost", currency="EUR")).code == "contradicts_payment"
    assert cases.refused(cases.after(None, cases.create()), dispute("lost")).code == "contradicts_payment"


def test_only_the_processor_of_the_payment_may_tell() -> None:
    for scope in ("processor:other", "settlement:simulator", cases.MERCHANT):
        told = dispute("lost")
        told.scope = scope
        assert cases.refused(PAID, told).code == "not_found"


def test_a_dispute_may_come_before_the_capture_is_known() -> None:
    """The fact would be lost if it were refused: its identity comes once."""
    processing = cases.in_every_state()["processing purchase"]
    payment = cases.told(cases.after(processing, dispute("needs_response", "withdrawn")), "captured")
    assert (payment.intent.amount_received, payment.intent.amount_disputed) == (cases.AMOUNT, 6_000)
    assert cases.refused(payment, cases.refund(4_001)).extra == {"refundable": 4_000}


def test_the_first_reason_stands_and_a_later_one_fills_the_gap() -> None:
    untold = cases.after(PAID, dispute("needs_response", reason=None))
    told = cases.after(untold, dispute("under_review", reason="fraudulent"))
    assert only(told).reason == "fraudulent"
    assert only(cases.after(told, dispute("won", reason="duplicate"))).reason == "fraudulent"
    assert only(cases.after(told, dispute("won", reason=None))).reason == "fraudulent"


def test_a_contradiction_says_the_amount_that_is_known() -> None:
    payment = cases.after(PAID, dispute("needs_response"))
    assert cases.refused(payment, cases.dispute("lost", amount=5_999)).extra == {"amount": only(payment).amount}
