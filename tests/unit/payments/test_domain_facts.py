"""Facts of the processor: what each does to the intent, its attempt and the ledger, whenever and however often it comes."""

from __future__ import annotations

from itertools import permutations

import pytest

from dataflows.payments.domain.decision import Decision, Payment
from tests.each import each
from tests.worlds.payments import payment_cases as cases

STATES = cases.in_every_state()
SUCCESS = {"purchase": "captured", "authorize": "authorized", "capture": "captured", "void": "voided"}
OPEN_STATES = [f"processing {kind}" for kind in SUCCESS]


def kinds(decision: Decision) -> list[str]:
    return [p.kind for p in decision.postings]


@pytest.mark.parametrize(
    ("state", "after", "received", "capturable", "posting"),
    [
        ("processing purchase", "succeeded", 10_000, 0, "capture"),
        ("processing authorize", "requires_capture", 0, 10_000, "authorize"),
        ("processing capture", "succeeded", 10_000, 0, "capture"),
        ("processing void", "canceled", 0, 0, "void"),
    ],
)
def test_success(state: str, after: str, received: int, capturable: int, posting: str) -> None:
    payment = STATES[state]
    decision = cases.decided(payment, cases.fact(payment, SUCCESS[state.split()[1]]))
    intent = decision.intent
    assert (intent.state, intent.amount_received, intent.amount_capturable) == (after, received, capturable)
    assert kinds(decision) == [posting]
    assert decision.attempt is not None
    assert decision.attempt.provider_ref == f"pr_{decision.attempt.attempt}"


@each("status", ["declined", "failed"])
@each(
    ("state", "after"),
    [
        ("processing purchase", "requires_payment_method"),
        ("processing authorize", "requires_payment_method"),
        ("processing capture", "requires_capture"),
        ("processing void", "requires_capture"),
    ],
)
def test_a_definitive_no_moves_no_money_and_allows_another_try(state: str, after: str, status: str) -> None:
    payment = STATES[state]
    decision = cases.decided(payment, cases.fact(payment, status, error_code="why"))
    assert (decision.intent.state, decision.intent.last_payment_error, decision.postings) == (after, "why", ())
    assert decision.intent.amount_capturable == payment.intent.amount_capturable
    assert decision.intent.cancellation_reason is None, "a refused void has canceled nothing"
    retry = cases.confirm("tok_b") if after == "requires_payment_method" else cases.capture()
    assert cases.after(cases.apply(payment, decision), retry).intent.state == "processing"


@each("status", ["unknown", "pending", "manual_review"])
@each("state", OPEN_STATES)
def test_without_a_definitive_answer_no_other_attempt_exists(state: str, status: str) -> None:
    """Rule: after an unknown outcome the same operation is asked about; no second effect (spec 1 section 3)."""
    payment = STATES[state]
    decision = cases.decided(payment, cases.fact(payment, status))
    assert (decision.intent.state, decision.postings) == ("processing", ())
    doubtful = cases.apply(payment, decision)
    for command in (cases.confirm("tok_b"), cases.capture(), cases.cancel()):
        assert cases.refused(doubtful, command).code == "state_conflict"


@each("doubt", ["unknown", "pending", "manual_review"])
@each("state", OPEN_STATES)
def test_a_doubt_is_settled_by_a_later_fact_as_if_it_had_come_first(state: str, doubt: str) -> None:
    payment = STATES[state]
    for status in (SUCCESS[state.split()[1]], "declined"):
        at_once = cases.told(payment, status)
        later = cases.told(cases.told(payment, doubt), status)
        assert later.intent.version == at_once.intent.version + 1
        at_once.intent.version = later.intent.version
        assert later == at_once


def test_the_processors_own_id_is_kept_from_the_first_fact_that_tells_it() -> None:
    payment = cases.told(STATES["processing purchase"], "pending", provider_ref="ch_1")
    assert payment.attempts[1].provider_ref == "ch_1"
    assert cases.told(payment, "captured", provider_ref=None).attempts[1].provider_ref == "ch_1"


def test_unknown_after_pending_is_news_and_the_same_again_is_not() -> None:
    payment = cases.told(STATES["processing purchase"], "pending")
    unsure = cases.told(payment, "unknown")
    assert cases.refused(unsure, cases.fact(unsure, "unknown")).code == "stale_fact"
    reviewed = cases.told(unsure, "manual_review")
    for status in ("pending", "unknown", "manual_review"):
        assert cases.refused(reviewed, cases.fact(reviewed, status)).code == "stale_fact"


@each("state", OPEN_STATES)
@each(
    ("said", "error"),
    [
        ({"amount": 9_999}, "amount_mismatch"),
        ({"amount": 10_001}, "amount_mismatch"),
        ({"amount": None}, "amount_mismatch"),
        ({"currency": "EUR"}, "currency_mismatch"),
        ({"currency": None}, "currency_mismatch"),
    ],
)
def test_another_amount_or_currency_than_asked_is_reviewed_by_people(
    state: str, said: dict[str, object], error: str
) -> None:
    payment = STATES[state]
    success = SUCCESS[state.split()[1]]
    decision = cases.decided(payment, cases.fact(payment, success, **said))
    assert decision.postings == ()
    assert (decision.intent.state, decision.intent.last_payment_error) == ("processing", error)
    assert decision.intent.amount_received == payment.intent.amount_received
    reviewed = cases.apply(payment, decision)
    assert reviewed.attempts[reviewed.intent.latest_attempt].status == "manual_review"
    assert cases.refused(reviewed, cases.fact(reviewed, success, **said)).code == "stale_fact"
    assert cases.refused(reviewed, cases.confirm("tok_b")).code == "state_conflict"


@pytest.mark.parametrize("state", OPEN_STATES)
def test_a_success_of_another_kind_is_reviewed_by_people(state: str) -> None:
    payment = STATES[state]
    wrong = next(s for s in ("authorized", "voided", "captured") if s != SUCCESS[state.split()[1]])
    decision = cases.decided(payment, cases.fact(payment, wrong))
    assert (decision.postings, decision.intent.last_payment_error) == ((), "unexpected_status")


@pytest.mark.parametrize("state", OPEN_STATES)
def test_a_fact_told_again_changes_nothing(state: str) -> None:
    payment = STATES[state]
    for status in (SUCCESS[state.split()[1]], "declined"):
        told = cases.told(payment, status)
        for again in (status, "unknown", "pending", "failed", "manual_review"):
            assert cases.refused(told, cases.fact(told, again)).code == "stale_fact"


@pytest.mark.parametrize("status", ["declined", "failed"])
def test_money_taken_after_all_wins_over_a_refusal(status: str) -> None:
    refused = cases.told(STATES["processing purchase"], status)
    decision = cases.decided(refused, cases.fact(refused, "captured"))
    assert (decision.intent.state, decision.intent.amount_received) == ("succeeded", cases.AMOUNT)
    assert kinds(decision) == ["capture"]
    paid = cases.apply(refused, decision)
    assert cases.refused(paid, cases.fact(paid, "captured")).code == "stale_fact", "once"


@pytest.mark.parametrize("state", ["processing purchase", "processing authorize", "processing capture"])
def test_a_success_that_was_known_without_its_name_is_named_by_the_same_fact(state: str) -> None:
    """Two persons, or a door that tells no reference, came first: without one nothing could be refunded or released."""
    status = {"authorize": "authorized"}.get(state.split()[1], "captured")
    unnamed = cases.told(STATES[state], status, provider_ref=None)
    number = unnamed.intent.latest_attempt
    for wrong in ({"amount": 1}, {"currency": "EUR"}, {"provider_ref": None}):
        assert cases.refused(unnamed, cases.fact(unnamed, status, **wrong)).code == "stale_fact"
    decision = cases.decided(unnamed, cases.fact(unnamed, status, provider_ref="theirs"))
    named = cases.apply(unnamed, decision)
    assert (named.attempts[number].provider_ref, named.attempts[number].status) == ("theirs", status)
    assert (decision.postings, decision.intent.state) == ((), unnamed.intent.state)
    assert cases.refused(named, cases.fact(named, status, provider_ref="another")).code == "stale_fact"


def test_money_taken_after_cancellation_is_posted_and_the_intent_stays_canceled() -> None:
    canceled = cases.after(cases.told(STATES["processing purchase"], "declined"), cases.cancel())
    decision = cases.decided(canceled, cases.fact(canceled, "captured", number=1))
    assert (decision.intent.state, decision.intent.amount_received) == ("canceled", cases.AMOUNT)
    assert kinds(decision) == ["capture", "refund"], "and goes back by itself"


def test_money_taken_twice_is_not_posted_as_one_payment() -> None:
    """Two live charges of one intent are for people to decide (invariant 9)."""
    second = cases.after(cases.told(STATES["processing purchase"], "declined"), cases.confirm("tok_b"))
    assert cases.refused(second, cases.fact(second, "captured", number=1)).code == "contradicts_attempt"
    paid = cases.told(second, "captured")
    assert cases.refused(paid, cases.fact(paid, "captured", number=1)).code == "contradicts_attempt"
    both_refused = cases.told(second, "declined")
    late = cases.decided(both_refused, cases.fact(both_refused, "captured", number=1))
    assert late.intent.amount_received == cases.AMOUNT


def test_a_late_capture_of_more_than_was_ever_held_is_a_contradiction() -> None:
    """All of the hold was taken since: the processor says that it took it twice."""
    refused = late_capture(10_000, final=True)
    retried = cases.told(cases.after(refused, cases.capture()), "captured")
    assert cases.refused(retried, cases.fact(retried, "captured", number=2)).code == "contradicts_attempt"
    part = cases.told(cases.after(refused, cases.capture(4_000, final=False)), "captured")
    assert cases.refused(part, cases.fact(part, "captured", number=2)).code == "contradicts_attempt"


def test_a_late_charge_of_another_amount_is_a_contradiction() -> None:
    refused = cases.told(STATES["processing purchase"], "declined")
    assert cases.refused(refused, cases.fact(refused, "captured", amount=1)).code == "contradicts_attempt"


@pytest.mark.parametrize(
    ("state", "known", "told"),
    [
        ("processing authorize", "declined", "authorized"),
        ("processing authorize", "authorized", "captured"),
        ("processing purchase", "declined", "voided"),
        ("processing purchase", "captured", "voided"),
        ("processing void", "failed", "voided"),
        ("processing capture", "captured", "voided"),
    ],
)
def test_a_word_about_money_that_cannot_be_followed_is_a_contradiction(state: str, known: str, told: str) -> None:
    """Never just stale: the processor says that it moved money which we do not have."""
    payment = cases.told(STATES[state], known)
    assert cases.refused(payment, cases.fact(payment, told)).code == "contradicts_attempt"


def late_capture(amount: int, *, final: bool) -> Payment:
    """A capture that was refused; what the processor says of it later is the test's."""
    return cases.told(cases.after(cases.authorized(), cases.capture(amount, final=final)), "failed")


def test_a_capture_of_what_a_late_one_has_taken_is_looked_at_by_people() -> None:
    """The first was refused, the second is under way when the first is told as taken: then the second is, too."""
    under_way = cases.after(late_capture(10_000, final=True), cases.capture())
    late = cases.told(under_way, "captured", number=2)
    both = cases.told(late, "captured", number=3)
    assert (both.intent.amount_received, both.intent.last_payment_error) == (10_000, "hold_exceeded")
    assert both.attempts[3].status == "manual_review"
    ended = cases.told(both, "failed", number=3)
    assert (ended.intent.state, ended.intent.amount_received) == ("succeeded", 10_000)


@pytest.mark.parametrize(
    ("final", "state", "capturable", "released"),
    [(True, "succeeded", 0, 10_000), (False, "requires_capture", 6_000, 4_000)],
)
def test_a_capture_that_took_money_after_all(final: bool, state: str, capturable: int, released: int) -> None:
    payment = late_capture(4_000, final=final)
    decision = cases.decided(payment, cases.fact(payment, "captured"))
    intent = decision.intent
    assert (intent.state, intent.amount_received, intent.amount_capturable) == (state, 4_000, capturable)
    assert decision.postings[0].entries[0].debit == released


@pytest.mark.parametrize(
    ("step", "settled", "state", "received"),
    [
        (cases.capture(6_000), "captured", "succeeded", 10_000),
        (cases.capture(), "declined", "requires_capture", 4_000),
        (cases.cancel(), "voided", "succeeded", 4_000),
    ],
    ids=["capture", "refused capture", "void"],
)
def test_a_late_capture_while_another_attempt_is_under_way(
    step: cases.Command, settled: str, state: str, received: int
) -> None:
    """The late money is posted at once, and the other attempt keeps its turn."""
    payment = cases.after(late_capture(4_000, final=False), step)
    late = cases.decided(payment, cases.fact(payment, "captured", number=2))
    assert (late.intent.state, kinds(late)) == ("processing", ["capture"])
    payment = cases.told(cases.apply(payment, late), settled)
    assert (payment.intent.state, payment.intent.amount_received) == (state, received)


@pytest.mark.parametrize(
    ("step", "settled", "state"),
    [(cases.cancel(), "voided", "succeeded"), (cases.capture(), "declined", "succeeded")],
)
def test_a_late_capture_that_uses_the_whole_hold_leaves_nothing_to_release(
    step: cases.Command, settled: str, state: str
) -> None:
    payment = cases.after(late_capture(10_000, final=True), step)
    payment = cases.told(payment, "captured", number=2)
    decision = cases.decided(payment, cases.fact(payment, settled))
    assert (decision.intent.state, decision.postings) == (state, ())


def test_a_late_capture_of_a_canceled_intent_is_posted() -> None:
    payment = cases.told(cases.after(late_capture(4_000, final=False), cases.cancel()), "voided")
    assert payment.intent.state == "canceled"
    late = cases.decided(payment, cases.fact(payment, "captured", number=2))
    assert (late.intent.state, late.intent.amount_received, late.intent.amount_capturable) == ("canceled", 4_000, 0)


def test_several_captures_then_the_rest_is_released() -> None:
    payment = cases.authorized()
    for amount, left in ((3_000, 7_000), (2_000, 5_000)):
        payment = cases.told(cases.after(payment, cases.capture(amount, final=False)), "captured")
        assert (payment.intent.state, payment.intent.amount_capturable) == ("requires_capture", left)
    done = cases.told(cases.after(payment, cases.capture(1_000)), "captured")
    assert (done.intent.state, done.intent.amount_received, done.intent.amount_capturable) == ("succeeded", 6_000, 0)


def test_cancel_of_a_partly_captured_intent_keeps_what_was_taken() -> None:
    """Rule: a canceled intent has no net capture (invariant 7), so this one has succeeded with what was taken."""
    payment = cases.told(cases.after(cases.authorized(), cases.capture(3_000, final=False)), "captured")
    voiding = cases.after(payment, cases.cancel())
    decision = cases.decided(voiding, cases.fact(voiding, "voided"))
    assert (decision.intent.state, decision.intent.amount_received) == ("succeeded", 3_000)
    assert decision.postings[0].entries[0].debit == 7_000


@pytest.mark.parametrize("said", [{"number": 9}, {"operation_id": "op_other_1"}])
def test_a_fact_about_no_attempt_of_ours(said: dict[str, object]) -> None:
    payment = STATES["processing purchase"]
    number = said.pop("number", 0)
    assert isinstance(number, int)
    assert cases.refused(payment, cases.fact(payment, "captured", number=number, **said)).code == "not_found"


def test_only_the_processor_that_serves_the_intent_may_tell() -> None:
    payment = STATES["processing purchase"]
    told = cases.fact(payment, "captured")
    for scope in ("processor:other", cases.MERCHANT, "simulator", ""):
        told.scope = scope
        assert cases.refused(payment, told).code == "not_found"


@each("order", sorted(set(permutations(["pending", "unknown", "captured", "captured", "declined"]))))
def test_the_order_of_doubts_and_repetitions_does_not_matter(order: tuple[str, ...]) -> None:
    """Whatever the order, money that was taken ends as taken, once: a refusal never outlives it."""
    payment = STATES["processing purchase"]
    postings = 0
    for status in order:
        decision = cases.commands.decide(payment, cases.fact(payment, status), cases.CONTEXT)
        if isinstance(decision, Decision):
            postings += len(decision.postings)
            payment = cases.apply(payment, decision)
    assert (payment.intent.state, payment.intent.amount_received, postings) == ("succeeded", cases.AMOUNT, 1)
    assert payment.attempts[1].status == "captured"
