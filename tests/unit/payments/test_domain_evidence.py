"""Evidence against disputes: a draft, one submission, and what a refused one leaves."""

from __future__ import annotations

import pytest

from dataflows.payments.domain.decision import Payment
from schemas.payments import limits
from schemas.payments.records import Dispute
from schemas.records import Command
from tests.worlds.payments import payment_cases as cases

DISPUTED = cases.after(cases.paid(), cases.dispute("needs_response", "withdrawn"))
(DISPUTE_ID,) = DISPUTED.disputes


def say(evidence: dict[str, str], *, submit: bool = False, key: str = "e", **envelope: int) -> Command:
    """What the merchant says."""
    payload: dict[str, object] = {"dispute": DISPUTE_ID, "evidence": evidence, "submit": submit}
    return cases.command("submit_dispute_evidence", payload, key=key, **envelope)


def dispute(payment: Payment) -> Dispute:
    """The only one."""
    return payment.disputes[DISPUTE_ID]


SUBMITTING = cases.after(DISPUTED, say({"receipt": "r"}, submit=True))


def test_a_draft_grows_and_its_texts_replace_those_of_their_kind() -> None:
    payment = cases.after(cases.after(DISPUTED, say({"receipt": "a", "note": "n"})), say({"receipt": "b"}))
    assert dispute(payment).evidence == {"receipt": "b", "note": "n"}
    assert (dispute(payment).evidence_state, dispute(payment).version) == ("draft", dispute(DISPUTED).version + 2)
    assert payment.intent.latest_attempt == DISPUTED.intent.latest_attempt, "nothing is sent yet"


def test_a_submission_is_one_attempt_about_the_dispute() -> None:
    decision = cases.decided(cases.after(DISPUTED, say({"receipt": "a"})), say({}, submit=True))
    attempt = decision.attempt
    assert attempt is not None
    assert (attempt.kind, attempt.status, attempt.parent_ref, attempt.amount) == (
        "evidence",
        "created",
        "dis_1",
        cases.AMOUNT,
    )
    assert (decision.postings, decision.intent.state) == ((), "succeeded")
    assert decision.dispute is not None
    assert decision.dispute.evidence_state == "draft", "submitted is what the processor has"


def test_it_is_submitted_once_the_processor_has_it_and_then_for_good() -> None:
    done = cases.told(cases.told(SUBMITTING, "unknown"), "submitted")
    assert dispute(done).evidence_state == "submitted"
    assert cases.refused(done, say({"receipt": "late"})).code == "state_conflict"
    assert cases.refused(done, cases.fact(done, "submitted")).code == "stale_fact"


def test_an_appeal_takes_evidence_of_its_own() -> None:
    done = cases.told(SUBMITTING, "submitted")
    lost = cases.after(done, cases.dispute("lost", "withdrawn"))
    appealed = cases.after(lost, cases.dispute("appeal_needs_response", "withdrawn"))
    assert (dispute(appealed).evidence_state, dispute(appealed).evidence) == ("draft", {"receipt": "r"})
    again = cases.told(cases.after(appealed, say({"letter": "l"}, submit=True, key="again")), "submitted")
    assert (dispute(again).evidence_state, dispute(again).evidence) == ("submitted", {"receipt": "r", "letter": "l"})


def test_the_chargeback_after_an_answered_inquiry_takes_evidence_of_its_own() -> None:
    asked = cases.after(cases.paid(), cases.dispute("warning_needs_response"))
    answered = cases.told(cases.after(asked, say({"receipt": "r"}, submit=True)), "submitted")
    reviewed = cases.after(answered, cases.dispute("warning_under_review"))
    assert dispute(reviewed).evidence_state == "submitted"
    charged = cases.after(reviewed, cases.dispute("needs_response", "withdrawn"))
    assert (dispute(charged).evidence_state, dispute(charged).evidence) == ("draft", {"receipt": "r"})
    again = cases.told(cases.after(charged, say({}, submit=True, key="again")), "submitted")
    assert dispute(again).evidence_state == "submitted"
    moved = cases.after(again, cases.dispute("under_review", "withdrawn"))
    assert dispute(moved).evidence_state == "submitted", "only who is asked again may answer again"


def test_nothing_changes_while_it_is_on_its_way_and_a_refused_one_leaves_the_draft() -> None:
    assert cases.refused(SUBMITTING, say({"receipt": "other"})).code == "state_conflict"
    refused = cases.told(SUBMITTING, "failed", error_code="dispute_closed")
    assert (dispute(refused).evidence_state, dispute(refused).evidence) == ("draft", {"receipt": "r"})
    assert cases.decided(refused, say({}, submit=True, key="again")).attempt is not None
    assert refused.intent.last_payment_error is None, "no payment failed"


def test_what_a_processor_refuses_again_and_again_is_bounded_for_each_dispute() -> None:
    """Every command on a payment reads all its attempts: one that a merchant has refused at will would stop its owner."""
    payment = DISPUTED
    for n in range(limits.EVIDENCE_SUBMISSIONS_MAX):
        payment = cases.told(cases.after(payment, say({"receipt": "r"}, submit=True, key=f"e{n}")), "failed")
    refused = cases.refused(payment, say({}, submit=True, key="one more"))
    assert (refused.code, refused.extra) == ("too_many_attempts", {"most": limits.EVIDENCE_SUBMISSIONS_MAX})
    assert cases.decided(payment, say({"receipt": "a"})).attempt is None, "a draft goes on"
    full = cases.paid()
    full.intent.latest_attempt = limits.PAYMENT_ATTEMPTS_MAX
    full = cases.after(full, cases.dispute("needs_response", "withdrawn"))
    assert cases.decided(full, say({"receipt": "r"}, submit=True)).attempt is not None, "it is defended all the same"


def test_a_word_about_money_says_nothing_of_evidence() -> None:
    assert cases.refused(SUBMITTING, cases.fact(SUBMITTING, "captured")).code == "stale_fact"


@pytest.mark.parametrize("state", ["under_review", "won", "lost", "prevented", "appeal_under_review"])
def test_evidence_is_taken_only_while_a_response_is_due(state: str) -> None:
    payment = cases.after(DISPUTED, cases.dispute(state, "withdrawn"))
    assert cases.refused(payment, say({"receipt": "r"})).code == "state_conflict"


@pytest.mark.parametrize("state", ["warning_needs_response", "appeal_needs_response"])
def test_inquiries_and_appeals_take_evidence_too(state: str) -> None:
    payment = cases.after(cases.paid(), cases.dispute(state))
    assert cases.decided(payment, say({"receipt": "r"})).dispute is not None


def test_bounds_identity_and_version() -> None:
    full = {f"kind {n}": "x" for n in range(limits.EVIDENCE_KINDS_MAX)}
    assert cases.refused(cases.after(DISPUTED, say(full)), say({"one more": "x"})).code == "invalid_command"
    assert cases.refused(DISPUTED, say({}, submit=True)).code == "invalid_command"
    assert cases.refused(cases.paid(), say({"receipt": "r"})).code == "not_found"
    assert cases.refused(DISPUTED, say({"receipt": "r"}, expected_version=9)).code == "version_conflict"
    assert cases.decided(DISPUTED, say({"receipt": "r"}, expected_version=1)).dispute is not None
