"""A further attempt at another processor: after a definitive failure of a charge, and never after anything less."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from dataflows.payments.domain import commands, routing
from dataflows.payments.domain.decision import Context, Decision, Payment
from dataflows.payments.domain.policies.in_force import Policies, ProcessorHealth
from schemas.payments import vouched
from schemas.payments.policies.routing import Candidate, RoutingPolicy, RoutingRule
from schemas.records import Command, Rejection
from tests.worlds.payments import payment_cases as cases

CANDIDATES = (Candidate("simulator_b"), Candidate("simulator"), Candidate("simulator_c"))
RULE = RoutingRule(name="cards", candidates=CANDIDATES, retryable_declines=("issuer_unavailable",))
POLICY = RoutingPolicy(version=7, rules=(RULE,), failovers_max=1)


def under(policy: RoutingPolicy = POLICY, **policies: Any) -> Context:
    return structs.replace(cases.CONTEXT, policies=Policies(routing=policy, **policies))


def after(payment: Payment | None, command: Command, context: Context) -> Payment:
    decision = commands.decide(payment, command, context)
    assert isinstance(decision, Decision), decision
    return cases.apply(payment, decision)


def confirmed(context: Context, capture: str = "automatic") -> Payment:
    return after(after(None, cases.create(capture=capture, method="tok_sim_a"), context), cases.confirm(), context)


@pytest.mark.parametrize("capture", ["automatic", "manual"])
def test_a_failed_charge_goes_on_at_the_next_processor_in_the_same_commit(capture: str) -> None:
    payment = confirmed(under(), capture)
    assert (payment.attempts[1].processor, payment.attempts[1].route) == ("simulator_b", "routing 7: cards")
    decision = commands.decide(payment, cases.fact(payment, "failed", error_code="processor_unavailable"), under())
    assert isinstance(decision, Decision)
    ended, started, intent = decision.caused_by, decision.attempt, decision.intent
    assert ended is not None
    assert started is not None
    assert (ended.attempt, ended.status, ended.error_code) == (1, "failed", "processor_unavailable")
    assert (started.attempt, started.status, started.processor, started.kind) == (
        2, "created", "simulator", payment.attempts[1].kind,
    )  # fmt: skip
    assert started.route == "routing 7: cards; failover 1 after simulator_b"
    assert (started.amount, started.payment_method) == (cases.AMOUNT, "tok_sim_a")
    assert started.operation_id != ended.operation_id
    assert (intent.state, intent.processor, intent.latest_attempt, intent.last_payment_error) == (
        "processing", "simulator", 2, None,
    )  # fmt: skip
    assert intent.version == payment.intent.version + 1
    assert decision.postings == ()


@pytest.mark.parametrize("status", ["unknown", "pending", "manual_review", "declined"])
def test_nothing_less_than_a_definitive_failure_starts_another_attempt(status: str) -> None:
    payment = confirmed(under())
    assert after(payment, cases.fact(payment, status), under()).attempts.keys() == {1}


def test_a_decline_is_retried_only_where_the_rule_lists_its_code() -> None:
    payment = confirmed(under())
    assert len(after(payment, cases.fact(payment, "declined", error_code="issuer_unavailable"), under()).attempts) == 2
    declined = after(payment, cases.fact(payment, "declined", error_code="insufficient_funds"), under())
    assert (declined.intent.state, declined.intent.last_payment_error) == (
        "requires_payment_method", "insufficient_funds",
    )  # fmt: skip


def test_an_unknown_outcome_that_turns_out_to_have_failed_may_fail_over() -> None:
    payment = confirmed(under())
    doubtful = after(payment, cases.fact(payment, "unknown"), under())
    assert after(doubtful, cases.fact(doubtful, "failed"), under()).attempts[2].processor == "simulator"


def test_an_attempt_under_review_has_no_successor() -> None:
    """Its processor did something that was not asked of it: another charge could be a second one."""
    payment = confirmed(under())
    reviewed = after(payment, cases.fact(payment, "captured", amount=cases.AMOUNT + 1), under())
    assert reviewed.attempts[1].status == "manual_review"
    ended = after(reviewed, cases.fact(reviewed, "failed"), under())
    assert (ended.attempts.keys(), ended.intent.state) == ({1}, "requires_payment_method")


def test_the_number_of_failovers_is_bounded_by_the_policy_and_starts_again_with_a_confirm() -> None:
    once, twice = under(), under(structs.replace(POLICY, failovers_max=2))
    payment = confirmed(once)
    for _ in range(2):
        payment = after(payment, cases.fact(payment, "failed"), once)
    assert (len(payment.attempts), payment.intent.state) == (2, "requires_payment_method")
    payment = after(payment, cases.confirm(), twice)
    for _ in range(3):
        assert payment.intent.state == "processing"
        payment = after(payment, cases.fact(payment, "failed"), twice)
    assert payment.intent.state == "requires_payment_method"
    assert [a.processor for _, a in sorted(payment.attempts.items())] == [
        *("simulator_b", "simulator"),
        *("simulator_b", "simulator", "simulator_c"),
    ]
    assert payment.attempts[5].route == "routing 7: cards; failover 2 after simulator"


def test_a_failover_goes_to_no_processor_that_is_ill() -> None:
    ill = ProcessorHealth(as_of=cases.CONTEXT.now, breaker="open", succeeded=0, declined=0, failed=0, unknown=0)
    payment = confirmed(under())
    assert (
        after(payment, cases.fact(payment, "failed"), under(health={"simulator": ill})).attempts[2].processor
        == "simulator_c"
    )
    nowhere = after(payment, cases.fact(payment, "failed"), under(health={"simulator": ill, "simulator_c": ill}))
    assert (nowhere.attempts.keys(), nowhere.intent.state) == ({1}, "requires_payment_method")


def test_a_frozen_merchant_gets_no_further_attempt() -> None:
    payment = confirmed(under())
    ended = after(payment, cases.fact(payment, "failed"), under(frozen_merchants=frozenset({cases.MERCHANT})))
    assert (ended.attempts.keys(), ended.intent.state) == ({1}, "requires_payment_method")


def test_a_failover_follows_the_rule_of_that_name_as_it_is_now() -> None:
    payment = confirmed(under())
    renamed = structs.replace(POLICY, version=8, rules=(structs.replace(RULE, name="other"),))
    assert len(after(payment, cases.fact(payment, "failed"), under(renamed)).attempts) == 1
    changed = structs.replace(POLICY, version=8, rules=(structs.replace(RULE, candidates=(Candidate("simulator_c"),)),))
    started = after(payment, cases.fact(payment, "failed"), under(changed)).attempts[2]
    assert (started.processor, started.route) == ("simulator_c", "routing 8: cards; failover 1 after simulator_b")


def test_captures_voids_and_refunds_go_to_the_processor_of_the_charge() -> None:
    payment = confirmed(under(), "manual")
    payment = after(payment, cases.fact(payment, "failed"), under())
    payment = after(payment, cases.fact(payment, "authorized"), under())
    payment = after(payment, cases.capture(4_000, final=False), under())
    assert payment.attempts[3].processor == "simulator"
    failed = after(payment, cases.fact(payment, "failed"), under())
    assert (failed.attempts.keys(), failed.intent.state) == ({1, 2, 3}, "requires_capture"), "captures never fail over"
    payment = after(payment, cases.fact(payment, "captured"), under())
    payment = after(payment, cases.refund(1_000), under())
    payment = after(payment, cases.cancel(), under())
    assert [payment.attempts[n].processor for n in (4, 5)] == ["simulator", "simulator"]


@pytest.mark.parametrize("other", ["created", "unknown", "captured"])
def test_money_that_the_first_processor_took_after_all_is_never_a_silent_second_charge(other: str) -> None:
    """Trap 1: whoever tells it opens a case; nothing is posted twice, and the live attempt keeps its turn."""
    payment = confirmed(under())
    payment = after(payment, cases.fact(payment, "failed"), under())
    if other != "created":
        payment = after(payment, cases.fact(payment, other), under())
    answer = commands.decide(payment, cases.fact(payment, "captured", number=1), under())
    assert isinstance(answer, Rejection)
    assert answer.code == "contradicts_attempt"


def test_a_second_hold_on_the_card_is_told_too() -> None:
    payment = confirmed(under(), "manual")
    payment = after(payment, cases.fact(payment, "failed"), under())
    answer = commands.decide(payment, cases.fact(payment, "authorized", number=1), under())
    assert isinstance(answer, Rejection)
    assert answer.code == "contradicts_attempt"


def test_money_of_the_first_processor_counts_once_the_second_refused() -> None:
    payment = confirmed(under())
    payment = after(payment, cases.fact(payment, "failed"), under())
    payment = after(payment, cases.fact(payment, "declined"), under())
    payment = after(payment, cases.fact(payment, "captured", number=1), under())
    assert (payment.intent.state, payment.intent.amount_received) == ("succeeded", cases.AMOUNT)
    answer = commands.decide(payment, cases.fact(payment, "captured", number=2), under())
    assert isinstance(answer, Rejection)
    assert answer.code == "contradicts_attempt"


def vouched_for(payment: Payment, number: int, status: str = "captured", **said: object) -> Command:
    """What two persons say of an attempt, after the processor's own word was refused."""
    told = cases.fact(payment, status, number=number, **said)
    told.idempotency_key = vouched.vouched_key(payment.attempts[number].operation_id, f"{vouched.PREFIX}1")
    return told


@pytest.mark.parametrize("live", ["created", "unknown", "captured"])
def test_money_beside_a_live_charge_that_two_persons_vouch_for_is_posted_and_goes_back(live: str) -> None:
    """The live charge keeps its turn and pays for the payment; invariant 9 counts it alone."""
    payment = after(confirmed(under()), cases.fact(confirmed(under()), "failed"), under())
    payment = payment if live == "created" else after(payment, cases.fact(payment, live), under())
    decision = commands.decide(payment, vouched_for(payment, 1), under())
    assert isinstance(decision, Decision)
    first, back, refund, intent = decision.caused_by, decision.attempt, decision.refund, decision.intent
    assert first is not None
    assert back is not None
    assert refund is not None
    assert (first.attempt, first.status, first.final) == (1, "captured", False)
    assert (back.kind, back.processor, back.parent_ref, back.amount) == ("refund", "simulator_b", "pr_1", cases.AMOUNT)
    assert (refund.reason, refund.state) == ("charged_twice", "pending")
    assert [p.kind for p in decision.postings] == ["capture", "refund"]
    assert (intent.state, intent.processor) == (payment.intent.state, "simulator")
    assert intent.amount_received == payment.intent.amount_received + cases.AMOUNT
    payment = cases.apply(payment, decision)
    payment = after(payment, cases.fact(payment, "refunded"), under())
    if live != "captured":
        payment = after(payment, cases.fact(payment, "captured", number=2), under())
    assert (payment.intent.state, payment.intent.amount_received, payment.intent.amount_refunded) == (
        "succeeded", 2 * cases.AMOUNT, cases.AMOUNT,
    )  # fmt: skip
    again = commands.decide(payment, vouched_for(payment, 1), under())
    assert isinstance(again, Rejection)
    assert again.code == "stale_fact"
    back_too = after(payment, cases.refund(), under())
    assert (back_too.attempts[4].processor, back_too.attempts[4].amount) == ("simulator", cases.AMOUNT)


@pytest.mark.parametrize("doubt", ["unknown", "pending", "requires_action"])
def test_a_doubt_about_the_refund_of_a_second_charge_takes_no_action_from_the_payer(doubt: str) -> None:
    payment = after(confirmed(under()), cases.fact(confirmed(under()), "failed"), under())
    asked = {"redirect_url": "https://bank.test/3ds"}
    payment = after(payment, cases.fact(payment, "requires_action", number=2, **asked), under())
    payment = after(payment, vouched_for(payment, 1), under())
    payment = after(payment, cases.fact(payment, doubt, number=3), under())
    assert (payment.attempts[3].kind, payment.attempts[3].status) == ("refund", doubt)
    assert (payment.intent.state, payment.intent.next_action) == ("requires_action", asked["redirect_url"])


def test_a_second_charge_that_went_back_leaves_room_for_another_one() -> None:
    payment = after(confirmed(under()), cases.fact(confirmed(under()), "failed"), under())
    payment = after(payment, vouched_for(payment, 1), under())
    payment = after(payment, cases.fact(payment, "declined", number=2), under())
    assert payment.intent.state == "requires_payment_method"
    assert after(payment, cases.confirm(), under()).attempts[4].kind == "purchase"


def test_only_money_as_it_was_asked_for_is_vouched_for_beside_a_live_charge() -> None:
    held = after(confirmed(under(), "manual"), cases.fact(confirmed(under(), "manual"), "failed"), under())
    payment = after(confirmed(under()), cases.fact(confirmed(under()), "failed"), under())
    for of, told in (
        (held, vouched_for(held, 1, "authorized")),
        (payment, vouched_for(payment, 1, amount=cases.AMOUNT - 1)),
        (payment, vouched_for(payment, 1, "voided")),
    ):
        answer = commands.decide(of, told, under())
        assert isinstance(answer, Rejection)
        assert answer.code == "contradicts_attempt"


def test_the_payment_names_the_processor_that_took_its_money() -> None:
    payment = confirmed(under())
    payment = after(payment, cases.fact(payment, "failed"), under())
    payment = after(payment, cases.fact(payment, "failed"), under())
    assert payment.intent.processor == "simulator"
    assert after(payment, cases.fact(payment, "captured", number=1), under()).intent.processor == "simulator_b"


def test_nothing_goes_on_of_a_payment_that_was_canceled_meanwhile() -> None:
    payment = confirmed(under())
    payment = after(payment, cases.fact(payment, "requires_action"), under())
    payment = after(payment, cases.cancel(), under())
    pending = after(payment, cases.fact(payment, "pending"), under())
    ended = after(pending, cases.fact(pending, "failed"), under())
    assert (ended.attempts.keys(), ended.intent.state) == ({1}, "canceled")
    assert routing.failover(under(), pending, pending.attempts[1], ended.attempts[1]) is None


def test_an_action_of_the_payer_that_failed_is_no_reason_to_charge_elsewhere() -> None:
    payment = confirmed(under())
    payment = after(payment, cases.fact(payment, "requires_action"), under())
    ended = after(payment, cases.fact(payment, "failed"), under())
    assert (ended.attempts.keys(), ended.intent.state) == ({1}, "requires_payment_method")
