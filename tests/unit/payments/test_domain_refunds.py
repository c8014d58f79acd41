"""Refunds: the cap, where the money comes from and goes back to, and facts that come in any order or too late."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import pytest
from msgspec import structs

from dataflows.payments.domain import commands, refund_outcome
from dataflows.payments.domain.decision import Context, Decision, Payment
from dataflows.payments.domain.policies.fees import FeeSchedule
from schemas import identity
from schemas.payments import limits
from schemas.payments.records import Refund
from schemas.records import Command
from tests.each import each
from tests.worlds.payments import payment_cases as cases

SHARE = 9_850  # of 10,000 after the platform's fee
PAID = cases.paid()


def only(payment: Payment) -> Refund:
    (refund,) = payment.refunds.values()
    return refund


def moved(*decisions: Decision) -> dict[str, int]:
    """Debits minus credits by account, without the currency."""
    found: Counter[str] = Counter()
    for entry in (e for d in decisions for p in d.postings for e in p.entries):
        found[entry.account_id.removesuffix(":USD")] += entry.debit - entry.credit
    return {account: amount for account, amount in found.items() if amount}


def test_a_refund_is_pending_with_its_attempt_and_its_money_set_aside_in_one_commit() -> None:
    decision = cases.decided(PAID, cases.refund(4_000, reason="duplicate"))
    refund, attempt = decision.refund, decision.attempt
    assert refund is not None and attempt is not None  # noqa: PT018
    assert refund.id == identity.part_id("re", cases.INTENT_ID, cases.MERCHANT, "POST /v1/refunds", "r")
    assert (refund.state, refund.amount, refund.reason, refund.version, refund.attempt) == (
        "pending",
        4_000,
        "duplicate",
        1,
        2,
    )
    assert (attempt.kind, attempt.status, attempt.amount, attempt.parent_ref) == ("refund", "created", 4_000, "pr_1")
    assert (attempt.operation_id, attempt.payment_method, attempt.final) == ("op_case_2", "tok_a", False)
    assert (decision.intent.state, decision.intent.version) == ("succeeded", PAID.intent.version + 1)
    assert moved(decision) == {"merchant_pending:m_1": 4_000, "refund_in_flight:simulator": -4_000}
    assert [p.reference for p in decision.postings] == [f"{refund.id}:created"]


def test_without_an_amount_all_that_is_left_is_refunded() -> None:
    """The platform's fee is not returned: what is not pending comes from what is available."""
    decision = cases.decided(PAID, cases.refund())
    assert decision.refund is not None
    assert (decision.refund.amount, decision.refund.from_pending, decision.intent.amount_pending) == (10_000, SHARE, 0)
    assert moved(decision)["merchant_available:m_1"] == 150


def test_the_cap_counts_what_is_under_way_and_names_what_is_left() -> None:
    payment = cases.refunding(4_000)
    over = cases.refused(payment, cases.refund(6_001, key="r2"))
    assert (over.code, over.extra) == ("amount_exceeds_refundable", {"refundable": 6_000})
    full = cases.refunding(6_000, payment, key="r2")
    for amount in (1, None):
        assert cases.refused(full, cases.refund(amount, key="r3")).extra == {"refundable": 0}


def test_a_failed_refund_makes_room_again() -> None:
    payment = cases.told(cases.refunding(10_000), "failed")
    assert cases.refunding(10_000, payment, key="r2").intent.latest_attempt == 3


@each(
    ("status", "funds", "left"),
    [
        ("needs_response", "none", 4_000),
        ("under_review", "withdrawn", 4_000),
        ("lost", "withdrawn", 4_000),
        ("warning_needs_response", "none", 10_000),
        ("warning_needs_response", "withdrawn", 4_000),
        ("won", "withdrawn", 10_000),
        ("prevented", "none", 10_000),
        ("warning_closed", "none", 10_000),
    ],
)
def test_what_is_disputed_cannot_be_refunded(status: str, funds: str, left: int) -> None:
    payment = cases.after(PAID, cases.dispute(status, funds, amount=6_000))
    assert cases.refused(payment, cases.refund(10_001)).extra == {"refundable": left}
    assert payment.intent.amount_disputed == 10_000 - left


@pytest.mark.parametrize("state", ["requires_payment_method", "processing purchase", "requires_capture", "canceled"])
def test_what_was_not_received_cannot_be_refunded(state: str) -> None:
    refusal = cases.refused(cases.in_every_state()[state], cases.refund(1))
    assert (refusal.code, refusal.extra["current_state"]) == ("state_conflict", state.split(maxsplit=1)[0])


def test_another_payment_and_another_merchant_are_refused() -> None:
    other = cases.refund(1)
    other.payload["payment_intent"] = "pi_other"
    assert cases.refused(PAID, other).code == "invalid_command"
    assert cases.refused(PAID, cases.refund(1, scope="m_2")).code == "not_found"


def test_success() -> None:
    payment = cases.refunding(4_000)
    decision = cases.decided(payment, cases.fact(payment, "refunded"))
    after = cases.apply(payment, decision)
    assert (only(after).state, only(after).version, after.attempts[2].status) == ("succeeded", 2, "refunded")
    assert (after.intent.amount_refunded, after.intent.state) == (4_000, "succeeded")
    assert moved(decision) == {"refund_in_flight:simulator": 4_000, "processor_receivable:simulator": -4_000}


@each(
    ("code", "reason"),
    [
        (None, "unknown"),
        ("insufficient_funds", "insufficient_funds"),
        ("lost_card", "lost_or_stolen_card"),
        ("expired_card", "expired_or_canceled_card"),
        ("card_declined", "declined"),
        ("charge_disputed", "charge_for_pending_refund_disputed"),
        ("merchant_request", "merchant_request"),
        ("a code of tomorrow", "unknown"),
    ],
)
def test_failure_gives_the_money_back_and_a_reason_of_the_public_list(code: str | None, reason: str) -> None:
    payment = cases.refunding(10_000)
    decision = cases.decided(payment, cases.fact(payment, "failed", error_code=code))
    after = cases.apply(payment, decision)
    assert (only(after).state, only(after).failure_reason, after.intent.amount_refunded) == ("failed", reason, 0)
    assert after.intent.amount_pending == SHARE
    assert moved(decision) == {
        "refund_in_flight:simulator": 10_000,
        "merchant_pending:m_1": -SHARE,
        "merchant_available:m_1": -150,
    }
    assert after.intent.last_payment_error is None, "the payment itself has no error"


def test_declined_is_a_reason_by_itself() -> None:
    assert only(cases.told(cases.refunding(), "declined")).failure_reason == "declined"


def test_money_that_has_matured_meanwhile_does_not_come_back_as_pending() -> None:
    """Else it would wait for a settlement that has been."""
    payment = cases.refunding(10_000)
    settled = cases.after(payment, cases.line(payment, 1))
    decision = cases.decided(settled, cases.fact(settled, "failed"))
    assert decision.intent.amount_pending == 0
    assert moved(decision)["merchant_available:m_1"] == -10_000


@pytest.mark.parametrize("status", ["pending", "unknown", "manual_review"])
def test_a_doubt_leaves_the_refund_pending_and_others_possible(status: str) -> None:
    """Rule: only charges, captures and voids wait for one another."""
    payment = cases.told(cases.refunding(4_000), status)
    assert (only(payment).state, payment.attempts[2].status) == ("pending", status)
    assert cases.refunding(1_000, payment, key="r2").attempts[3].status == "created"


@pytest.mark.parametrize("said", [{"amount": 3_999}, {"currency": "EUR"}, {"amount": None}])
def test_another_echo_is_reviewed_by_people(said: dict[str, object]) -> None:
    payment = cases.refunding(4_000)
    decision = cases.decided(payment, cases.fact(payment, "refunded", **said))
    reviewed = cases.apply(payment, decision)
    assert (decision.postings, reviewed.attempts[2].status, only(reviewed).state) == ((), "manual_review", "pending")
    assert cases.refused(reviewed, cases.fact(reviewed, "refunded", **said)).code == "stale_fact"
    assert cases.told(reviewed, "refunded").intent.amount_refunded == 4_000


def test_a_refund_that_fails_after_it_had_succeeded() -> None:
    payment = cases.told(cases.refunding(4_000), "refunded")
    decision = cases.decided(payment, cases.failed_later(payment, 2, "lost_card"))
    after = cases.apply(payment, decision)
    assert (only(after).state, only(after).failure_reason) == ("failed", "lost_or_stolen_card")
    assert (after.attempts[2].status, after.intent.amount_refunded) == ("failed", 0)
    assert moved(decision) == {"processor_receivable:simulator": 4_000, "merchant_pending:m_1": -4_000}
    for status in ("refunded", "failed", "declined", "unknown"):
        assert cases.refused(after, cases.fact(after, status)).code == "stale_fact"


def test_a_plain_failure_of_a_refund_that_is_known_to_have_succeeded_is_the_same() -> None:
    payment = cases.told(cases.refunding(4_000), "refunded")
    after = cases.told(payment, "failed", error_code="lost_card")
    assert after == cases.after(payment, cases.failed_later(payment, 2, "lost_card"))


def test_its_failure_may_be_heard_of_first() -> None:
    """Both are posted then, and the late success is stale: the end is the same in either order."""
    payment = cases.refunding(4_000)
    decision = cases.decided(payment, cases.failed_later(payment, 2))
    assert [p.kind for p in decision.postings] == ["refund_succeeded", "refund_failed_later"]
    after = cases.apply(payment, decision)
    assert (only(after).state, after.intent.amount_refunded, after.intent.amount_pending) == ("failed", 0, SHARE)
    assert cases.refused(after, cases.fact(after, "refunded")).code == "stale_fact"


def test_money_that_moved_after_all_wins_over_a_failure_once() -> None:
    payment = cases.told(cases.refunding(4_000), "failed")
    decision = cases.decided(payment, cases.fact(payment, "refunded"))
    after = cases.apply(payment, decision)
    assert (only(after).state, only(after).failure_reason, after.intent.amount_refunded) == ("succeeded", None, 4_000)
    assert moved(decision) == {"merchant_pending:m_1": 4_000, "processor_receivable:simulator": -4_000}
    assert cases.refused(after, cases.fact(after, "refunded")).code == "stale_fact"


def test_a_late_success_whose_place_was_taken_is_for_people() -> None:
    """More would have gone out than came in: the ledger does not pretend that it was granted."""
    payment = cases.refunding(7_000, cases.told(cases.refunding(7_000), "failed"), key="r2")
    assert cases.refused(payment, cases.fact(payment, "refunded", number=2)).code == "contradicts_attempt"
    assert cases.refused(payment, cases.fact(payment, "refunded", number=2, amount=1)).code == "contradicts_attempt"


FACTS = ("refunded", "refunded", "failed_later", "failed_later", "pending")


@each("order", sorted(set(permutations(FACTS))))
def test_the_order_of_success_and_failure_does_not_matter(order: tuple[str, ...]) -> None:
    payment, references = cases.refunding(4_000), set()
    totals: Counter[str] = Counter()
    for said in order:
        fact = cases.failed_later(payment, 2) if said == "failed_later" else cases.fact(payment, said)
        decision = commands.decide(payment, fact, cases.CONTEXT)
        if isinstance(decision, Decision):
            references |= {p.reference for p in decision.postings}
            totals.update(moved(decision))
            payment = cases.apply(payment, decision)
    assert (only(payment).state, payment.attempts[2].status, payment.intent.amount_refunded) == ("failed", "failed", 0)
    assert references == {"op_case_2:refunded", "op_case_2:failed_later"}
    assert {a: n for a, n in totals.items() if n} == {
        "refund_in_flight:simulator": 4_000,
        "merchant_pending:m_1": -4_000,
    }


def test_a_pending_refund_cannot_be_called_back() -> None:
    payment = cases.refunding()
    canceling = cases.command(cases.CANCEL_REFUND, {"refund": only(payment).id})
    assert cases.refused(payment, canceling).extra["current_state"] == "pending"
    unknown = cases.command(cases.CANCEL_REFUND, {"refund": "re_case_none"})
    assert cases.refused(payment, unknown).code == "not_found"


def test_a_refund_that_waits_for_somebody_can_be_canceled() -> None:
    payment = cases.refunding(4_000)
    waiting = structs.replace(only(payment), state="requires_action")
    payment.refunds[waiting.id] = waiting
    over = cases.refused(payment, cases.refund(6_001, key="r2"))
    assert over.extra == {"refundable": 6_000}, "it takes its room while it waits"
    decision = cases.decided(payment, cases.command(cases.CANCEL_REFUND, {"refund": waiting.id}))
    after = cases.apply(payment, decision)
    assert (only(after).state, after.attempts[2].status, after.intent.amount_pending) == ("canceled", "failed", SHARE)
    assert after.attempts[2].error_code == "canceled", "not a word of the processor's"
    assert moved(decision) == {"refund_in_flight:simulator": 4_000, "merchant_pending:m_1": -4_000}


def test_a_late_capture_of_a_canceled_payment_goes_back_in_the_same_commit() -> None:
    refused = cases.told(cases.after(cases.after(None, cases.create()), cases.confirm()), "declined")
    canceled = cases.after(refused, cases.cancel())
    decision = cases.decided(canceled, cases.fact(canceled, "captured", number=1))
    assert (decision.intent.state, decision.intent.amount_received) == ("canceled", cases.AMOUNT)
    assert decision.attempt is not None
    assert (decision.attempt.kind, decision.attempt.status, decision.attempt.amount) == (
        "refund",
        "created",
        cases.AMOUNT,
    )
    assert decision.caused_by is not None
    assert (decision.caused_by.attempt, decision.caused_by.status) == (1, "captured")
    assert decision.refund is not None
    assert (decision.refund.reason, decision.refund.amount) == ("payment_canceled", cases.AMOUNT)
    assert [p.kind for p in decision.postings] == ["capture", "refund"]
    after = cases.told(cases.apply(canceled, decision), "refunded")
    assert (after.intent.state, after.intent.amount_refunded) == ("canceled", cases.AMOUNT)
    assert cases.refused(after, cases.fact(after, "captured", number=1)).code == "stale_fact"


def test_a_refund_beside_a_capture_leaves_it_its_turn() -> None:
    payment = cases.told(cases.after(cases.authorized(), cases.capture(4_000, final=False)), "captured")
    capturing = cases.after(payment, cases.capture())
    refunding = cases.refunding(1_000, capturing)
    assert refunding.intent.state == "processing"
    captured = cases.told(refunding, "captured", number=3, amount=6_000, operation_id="op_case_3")
    assert (captured.intent.state, captured.intent.amount_received) == ("succeeded", 10_000)


@pytest.mark.parametrize("order", [(3_333, 3_333, 3_334), (10_000,), (1, 9_999)])
def test_a_returned_fee_is_never_more_than_the_fee_that_was_taken(order: tuple[int, ...]) -> None:
    """The policy that is off by default."""
    context = Context(now=1, fees=FeeSchedule(returns_platform_fee=True), processor=cases.PROCESSOR)
    payment, income = PAID, 0

    def step(command: Command) -> None:
        nonlocal payment, income
        decision = commands.decide(payment, command, context)
        assert isinstance(decision, Decision)
        income += moved(decision).get("platform_fee_income", 0)
        payment = cases.apply(payment, decision)

    for number, amount in enumerate(order):
        step(cases.refund(amount, key=f"r{number}"))
        step(cases.fact(payment, "refunded"))
    assert income == 150
    step(cases.failed_later(payment, payment.intent.latest_attempt))
    assert 0 <= income < 150


@each(
    ("said", "reason"),
    [
        ("lost_or_stolen_card", "lost_or_stolen_card"),
        ("lost_card", "lost_or_stolen_card"),
        ("stolen_card", "lost_or_stolen_card"),
        ("expired_or_canceled_card", "expired_or_canceled_card"),
        ("expired_card", "expired_or_canceled_card"),
        ("canceled_card", "expired_or_canceled_card"),
        ("insufficient_funds", "insufficient_funds"),
        ("declined", "declined"),
        ("card_declined", "declined"),
        ("do_not_honor", "declined"),
        ("charge_for_pending_refund_disputed", "charge_for_pending_refund_disputed"),
        ("charge_disputed", "charge_for_pending_refund_disputed"),
        ("merchant_request", "merchant_request"),
        ("unknown", "unknown"),
        ("something_new", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_processors_code_becomes_a_public_reason(said: str, reason: str) -> None:
    """The list that merchants program against; a code that is not known is told as that, never passed on."""
    assert refund_outcome.failure_reason(said) == reason


def test_what_goes_back_is_named_by_what_became_of_the_refund() -> None:
    decision = cases.decided(cases.refunding(), cases.fact(cases.refunding(), "failed", number=2))
    assert [(p.reference, p.kind) for p in decision.postings] == [("op_case_2:refund_failed", "refund_failed")]


def test_refusals_tell_state_and_version() -> None:
    untried = cases.after(None, cases.create())
    refused = cases.refused(untried, cases.refund(1))
    assert (refused.code, refused.extra) == (
        "state_conflict",
        {"current_state": "requires_confirmation", "current_version": untried.intent.version},
    )
    pending = cases.refunding()
    (made,) = pending.refunds.values()
    late = cases.refused(pending, cases.command(cases.CANCEL_REFUND, {"refund": made.id}))
    assert (late.code, late.extra) == ("state_conflict", {"current_state": "pending", "current_version": made.version})


def test_a_refund_waits_for_its_payer_exactly_while_its_attempt_does() -> None:
    waiting = cases.told(cases.refunding(4_000), "requires_action", redirect_url="https://bank.example/1")
    assert (only(waiting).state, only(waiting).version) == ("requires_action", 2)
    assert only(waiting).pending_reason is None
    assert only(cases.told(waiting, "refunded")).state == "succeeded"


def at_the_bound(payment: Payment) -> Payment:
    """The payment after as many attempts as one may have; none of them stands in the way by itself."""
    return structs.replace(payment, intent=structs.replace(payment.intent, latest_attempt=limits.PAYMENT_ATTEMPTS_MAX))


@pytest.mark.parametrize(
    ("payment", "command"),
    [
        (PAID, cases.refund(1)),
        (cases.after(None, cases.create()), cases.confirm()),
        (cases.authorized(), cases.capture(1, final=False)),
        (cases.authorized(), cases.increment(cases.AMOUNT + 1)),
    ],
    ids=lambda x: x.operation if isinstance(x, Command) else "",
)
def test_a_payment_has_no_more_attempts_than_its_owner_can_carry(payment: Payment, command: Command) -> None:
    """Every command on a payment reads and walks all its parts: without a bound one merchant stops the owner of many."""
    cases.decided(payment, command)
    refused = cases.refused(at_the_bound(payment), command)
    assert (refused.code, refused.extra) == ("too_many_attempts", {"most": limits.PAYMENT_ATTEMPTS_MAX})


def test_what_ends_a_payment_or_gives_money_back_goes_on_past_the_bound() -> None:
    full = at_the_bound(cases.authorized())
    for ending in (cases.capture(1), cases.capture(), cases.cancel()):
        assert cases.decided(full, ending).attempt is not None
    refused = cases.told(cases.after(cases.after(None, cases.create()), cases.confirm()), "declined")
    canceled = at_the_bound(cases.after(refused, cases.cancel()))
    assert cases.decided(canceled, cases.fact(canceled, "captured", number=1)).refund is not None
