"""Payers' actions and money held on a card, from hold to release: every door of the domain."""

from __future__ import annotations

import pytest
from msgspec import structs

from dataflows.payments.domain import commands
from dataflows.payments.domain.decision import Decision, Payment
from schemas.payments import payer_action, rendering
from schemas.records import Rejection
from tests.worlds.payments import payment_cases as cases

URL = "https://acs.example/1"
DAY_US = 86_400 * 1_000_000
LATER = structs.replace(cases.CONTEXT, now=cases.CONTEXT.now + 8 * DAY_US)
HELD = cases.authorized()
MEMO = ("auth_hold:simulator:USD", "auth_obligation:m_1:USD")


def waiting(capture: str = "automatic") -> Payment:
    """The payer has to do something."""
    open_ = cases.after(cases.after(None, cases.create(capture=capture)), cases.confirm())
    return cases.told(open_, "requires_action", redirect_url=URL)


def moved(decision: Decision) -> list[tuple[str, str, int]]:
    """Debit, credit and amount of the first line of each posting."""
    return [(p.entries[0].account_id, p.entries[1].account_id, p.entries[0].debit) for p in decision.postings]


def expire(payment: Payment, *, until: int | None = None) -> Decision | Rejection:
    """What our clock asks for, eight days later."""
    attempt = payment.attempts[1]
    told = cases.command(
        "expire_authorization",
        {"operation_id": attempt.operation_id, "authorized_until": until or payment.intent.authorized_until},
        scope=f"processor:{cases.PROCESSOR}",
    )
    return commands.decide(payment, told, LATER)


def increment(amount: int) -> commands.Command:
    """The new total."""
    return cases.command("increment_authorization", {"amount": amount})


def test_an_action_of_another_kind_is_kept_with_what_the_processor_says_of_it() -> None:
    open_ = cases.after(cases.after(None, cases.create()), cases.confirm())
    told = payer_action.kept("use_stripe_sdk", None, {"client_secret": "s"})
    payment = cases.told(open_, "requires_action", next_action=told)
    assert rendering.payment_intent(payment.intent)["next_action"] == {
        "type": "use_stripe_sdk",
        "url": None,
        "details": {"client_secret": "s"},
    }


def test_a_confirm_says_where_the_payer_comes_back_to_and_it_is_stored_with_what_was_agreed() -> None:
    """The sweep of a later worker reads it in the intent's row; an update may have said something else before."""
    made = cases.after(None, cases.create())
    decision = commands.decide(made, cases.confirm(return_url="https://shop.example/back"), cases.CONTEXT)
    assert isinstance(decision, Decision)
    assert (decision.intent.return_url, decision.amended) == ("https://shop.example/back", True)
    without = commands.decide(made, cases.confirm(), cases.CONTEXT)
    assert isinstance(without, Decision)
    assert (without.intent.return_url, without.amended) == (made.intent.return_url, False)


@pytest.mark.parametrize("capture", ["automatic", "manual"])
def test_a_payer_has_to_act_and_then_it_goes_on(capture: str) -> None:
    payment = waiting(capture)
    assert (payment.intent.state, payment.intent.next_action) == ("requires_action", URL)
    acting = cases.told(payment, "pending")
    assert (acting.intent.state, acting.intent.next_action) == ("processing", None)
    for before in (payment, acting):
        done = cases.told(before, "captured" if capture == "automatic" else "authorized")
        assert done.intent.state == ("succeeded" if capture == "automatic" else "requires_capture")
        assert done.intent.next_action is None
        refused = cases.told(before, "declined", error_code="authentication_failed")
        assert (refused.intent.state, refused.intent.next_action) == ("requires_payment_method", None)


def test_a_question_without_an_answer_says_nothing_of_a_payer() -> None:
    assert cases.refused(waiting(), cases.fact(waiting(), "unknown")).code == "stale_fact"
    assert cases.refused(waiting(), cases.fact(waiting(), "requires_action")).code == "stale_fact"


def test_what_comes_after_the_cancel_of_a_waiting_payment_goes_back() -> None:
    """Rule: canceled is terminal for commands, never for money facts; nothing is lost and nothing kept."""
    canceled = cases.after(waiting(), cases.cancel("abandoned"))
    assert (canceled.intent.state, canceled.intent.next_action) == ("canceled", None)
    late = cases.decided(canceled, cases.fact(canceled, "captured"))
    assert late.refund is not None
    assert (late.intent.state, late.refund.amount, late.refund.state) == ("canceled", cases.AMOUNT, "pending")
    refused = cases.told(canceled, "declined")
    assert (refused.intent.state, refused.intent.cancellation_reason) == ("canceled", "abandoned")


def test_a_hold_that_is_heard_of_after_the_cancel_is_released_in_the_same_commit() -> None:
    canceled = cases.after(waiting("manual"), cases.cancel())
    late = cases.decided(canceled, cases.fact(canceled, "authorized"))
    assert late.attempt is not None
    assert late.caused_by is not None
    assert (late.attempt.kind, late.attempt.status, late.attempt.parent_ref) == ("void", "created", "pr_1")
    assert (late.caused_by.status, late.intent.state, late.intent.amount_capturable) == (
        "authorized",
        "canceled",
        cases.AMOUNT,
    )
    released = cases.decided(cases.apply(canceled, late), cases.fact(cases.apply(canceled, late), "voided"))
    assert moved(released) == [(*MEMO[::-1], cases.AMOUNT)]
    assert (released.intent.state, released.intent.amount_capturable, released.intent.cancellation_reason) == (
        "canceled",
        0,
        None,
    )
    kept = cases.told(cases.apply(canceled, late), "failed")
    assert (kept.intent.state, kept.intent.amount_capturable) == ("canceled", cases.AMOUNT)


def test_a_hold_ends_when_its_processor_says_or_after_a_week() -> None:
    open_ = cases.after(cases.after(None, cases.create(capture="manual")), cases.confirm())
    assert cases.told(open_, "authorized", authorized_until=7).intent.authorized_until == 7
    assert HELD.intent.authorized_until == cases.CONTEXT.now + 7 * DAY_US
    assert cases.told(cases.after(HELD, cases.capture()), "captured").intent.authorized_until is None


def test_an_increment_holds_the_difference_and_a_refused_one_leaves_the_hold() -> None:
    started = cases.decided(HELD, increment(cases.AMOUNT + 2_000))
    assert started.attempt is not None
    assert (started.attempt.kind, started.attempt.amount, started.attempt.parent_ref) == ("increment", 2_000, "pr_1")
    payment = cases.apply(HELD, started)
    more = cases.decided(payment, cases.fact(payment, "authorized"))
    assert moved(more) == [(*MEMO, 2_000)]
    assert (more.intent.amount, more.intent.amount_capturable, more.amended) == (12_000, 12_000, True)
    refused = cases.told(payment, "declined", error_code="insufficient_funds")
    assert (refused.intent.state, refused.intent.amount, refused.intent.amount_capturable) == (
        "requires_capture",
        cases.AMOUNT,
        cases.AMOUNT,
    )
    assert cases.refused(refused, cases.fact(refused, "authorized")).code == "contradicts_attempt"


@pytest.mark.parametrize("total", [1, cases.AMOUNT])
def test_an_increment_raises_the_total(total: int) -> None:
    assert cases.refused(HELD, increment(total)).code == "amount_not_higher"
    assert cases.refused(cases.paid(), increment(total + 1)).code == "state_conflict"


@pytest.mark.parametrize(("code", "reason"), [("expired", "expired"), (None, "released_by_processor")])
def test_a_hold_that_its_processor_ends_cancels_the_payment(code: str | None, reason: str) -> None:
    ended = cases.decided(HELD, cases.fact(HELD, "voided", error_code=code))
    assert moved(ended) == [(*MEMO[::-1], cases.AMOUNT)]
    assert (ended.intent.state, ended.intent.cancellation_reason, ended.intent.authorized_until) == (
        "canceled",
        reason,
        None,
    )
    again = cases.apply(HELD, ended)
    assert cases.refused(again, cases.fact(again, "voided", error_code="expired")).code == "stale_fact"


def test_what_was_captured_of_an_expired_hold_stays() -> None:
    part = cases.told(cases.after(HELD, cases.capture(4_000, final=False)), "captured")
    ended = cases.decided(part, cases.fact(part, "voided", number=1, amount=6_000, error_code="expired"))
    assert moved(ended) == [(*MEMO[::-1], 6_000)]
    assert (ended.intent.state, ended.intent.amount_received, ended.intent.amount_capturable) == ("succeeded", 4_000, 0)


def test_the_end_of_a_hold_may_be_heard_of_before_the_hold() -> None:
    """Told once, it says both; the authorization itself, told later, is stale."""
    open_ = cases.after(cases.after(None, cases.create(capture="manual")), cases.confirm())
    ended = cases.decided(open_, cases.fact(open_, "voided", error_code="expired"))
    assert moved(ended) == [(*MEMO, cases.AMOUNT), (*MEMO[::-1], cases.AMOUNT)]
    assert ended.intent.state == "canceled"
    after = cases.apply(open_, ended)
    assert cases.refused(after, cases.fact(after, "authorized")).code == "stale_fact"
    assert cases.told(open_, "voided", error_code="expired", amount=1).attempts[1].status == "manual_review"


@pytest.mark.parametrize(
    ("step", "kind", "reason"),
    [
        (cases.capture(), "capture", "expired"),
        (cases.cancel("duplicate"), "void", "duplicate"),
        (increment(20_000), "increment", "expired"),
    ],
)
def test_what_is_under_way_when_a_hold_ends_keeps_its_turn(step: commands.Command, kind: str, reason: str) -> None:
    busy = cases.after(HELD, step)
    ended = cases.after(busy, cases.fact(busy, "voided", number=1, error_code="expired"))
    assert (ended.intent.state, ended.intent.amount_capturable) == ("processing", 0)
    refused = cases.told(ended, "failed", error_code="authorization_closed")
    assert (refused.intent.state, refused.intent.cancellation_reason) == ("canceled", reason)
    if kind == "capture":
        assert cases.told(ended, "captured").intent.state == "succeeded"


@pytest.mark.parametrize(("captured", "state", "reason"), [(0, "canceled", "expired"), (4_000, "succeeded", None)])
def test_what_a_hold_grew_by_ends_with_it_when_its_end_was_heard_of_first(
    captured: int, state: str, reason: str | None
) -> None:
    """Nothing would ever release it: the hold that it belongs to is over at the processor."""
    payment = HELD
    if captured:
        payment = cases.told(cases.after(payment, cases.capture(captured, final=False)), "captured")
    growing = cases.after(payment, increment(12_000))
    over = cases.after(growing, cases.fact(growing, "voided", number=1, error_code="expired"))
    decision = cases.decided(over, cases.fact(over, "authorized"))
    operation = over.attempts[over.intent.latest_attempt].operation_id
    assert [p.reference for p in decision.postings] == [f"{operation}:authorize", f"{operation}:expired"]
    assert moved(decision) == [(*MEMO, 2_000), (*MEMO[::-1], 2_000)]
    intent = decision.intent
    assert (intent.state, intent.cancellation_reason) == (state, reason)
    assert (intent.amount, intent.amount_capturable, intent.authorized_until) == (12_000, 0, None)


def test_our_clock_asks_the_processor_to_release_and_nothing_ends_before_it_did() -> None:
    started = expire(HELD)
    assert isinstance(started, Decision)
    assert started.attempt is not None
    assert (started.attempt.kind, started.postings, started.intent.state) == ("void", (), "processing")
    payment = cases.apply(HELD, started)
    done = cases.told(payment, "voided")
    assert (done.intent.state, done.intent.cancellation_reason) == ("canceled", "expired")
    refused = cases.told(payment, "failed")
    assert (refused.intent.state, refused.intent.cancellation_reason) == ("requires_capture", None)
    again = expire(refused)
    assert isinstance(again, Decision), "and is asked again in the next period"


def test_our_clock_releases_what_is_held_of_a_canceled_payment() -> None:
    canceled = cases.after(waiting("manual"), cases.cancel())
    kept = cases.told(cases.told(canceled, "authorized"), "failed")
    started = expire(kept)
    assert isinstance(started, Decision)
    assert (started.intent.state, started.intent.latest_attempt) == ("canceled", 3)


@pytest.mark.parametrize(
    "payment",
    [
        cases.after(HELD, cases.capture()),
        cases.told(cases.after(HELD, cases.cancel()), "voided"),
        cases.told(cases.after(waiting("manual"), cases.cancel()), "authorized"),
    ],
    ids=["capturing", "released", "releasing"],
)
def test_our_clock_asks_only_where_a_hold_is_idle(payment: Payment) -> None:
    refusal = expire(payment, until=HELD.intent.authorized_until)
    assert isinstance(refusal, Rejection)
    assert refusal.code == "stale_fact"


def test_our_clock_says_which_hold_it_means_and_is_never_early() -> None:
    assert isinstance(expire(HELD, until=1), Rejection)
    told = cases.command(
        "expire_authorization",
        {"operation_id": HELD.attempts[1].operation_id, "authorized_until": HELD.intent.authorized_until},
        scope=f"processor:{cases.PROCESSOR}",
    )
    assert isinstance(commands.decide(HELD, told, cases.CONTEXT), Rejection)
    stolen = structs.replace(told, scope=cases.MERCHANT)
    assert cases.refused(HELD, stolen).code == "not_found"
