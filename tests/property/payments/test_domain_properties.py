"""What holds for every payment, whatever is asked of it and whatever the processor says, in any order.

Histories of random commands and facts are folded by the domain alone: thousands of steps a second, and a failure shrinks.
"""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dataflows.payments.domain import commands
from dataflows.payments.domain.decision import Context, Decision, Payment
from dataflows.payments.domain.ledger.posting import is_balanced
from dataflows.payments.domain.policies.fees import FeeSchedule, fee_minor
from dataflows.payments.domain.processor_attempt import OPEN
from ingress.http.openapi.elements import codes_of
from schemas.payments.operations import OPERATIONS
from schemas.records import Command, Rejection
from tests.worlds.payments import payment_cases as cases

STATUSES = (
    *("pending", "unknown", "authorized", "captured", "voided", "declined", "failed", "manual_review", "refunded"),
    *("requires_action", "submitted"),
)
amounts = st.one_of(st.integers(1, 30_000), st.integers(1, 2**53 - 1))
methods = st.sampled_from([None, "tok_a", "tok_b"])
creates = st.builds(
    cases.create,
    amount=amounts,
    method=methods,
    capture=st.sampled_from(["automatic", "manual"]),
    currency=st.sampled_from(["USD", "JPY", "KWD", "CLF"]),
)
wishes = st.one_of(
    st.builds(cases.confirm, methods),
    st.builds(cases.capture, st.none() | st.integers(1, 30_000), final=st.booleans()),
    st.builds(cases.cancel, st.sampled_from([None, "duplicate"])),
    st.builds(cases.increment, amounts),
    st.builds(cases.update, amount=st.none() | amounts, method=methods),
)
told = st.tuples(
    st.sampled_from(STATUSES),
    st.integers(0, 3),  # how many attempts ago
    st.sampled_from([0, 0, 0, 0, 1, -1]),  # off by
    st.sampled_from(["pr_1", None]),
)
steps = st.lists(wishes | told, max_size=40)
schedules = st.builds(
    FeeSchedule,
    platform_bps=st.integers(0, 10_000),
    platform_fixed_minor=st.sampled_from([0, 0, 30, 10**9]),
    processor_bps=st.integers(0, 10_000),
)


def command_of(payment: Payment, step: Any) -> Command:
    """A wish as it is; a fact about an attempt of this payment (or of none), true or a little off."""
    if isinstance(step, Command):
        return step
    status, ago, off, ref = step
    number = max(0, payment.intent.latest_attempt - ago)
    fact = cases.fact(payment, status, number=number or 99, provider_ref=ref)
    if isinstance(fact.payload["amount"], int):
        fact.payload["amount"] += off
    return fact


def folded(create: Command, history: list[Any], context: Context = cases.CONTEXT) -> tuple[Payment, list[Decision]]:
    """The payment after a history and every decision in it, checked step by step."""
    first = commands.decide(None, create, context)
    assert isinstance(first, Decision)
    payment, decisions = cases.apply(None, first), [first]
    for step in history:
        command = command_of(payment, step)
        before = copy.deepcopy(payment)
        decision = commands.decide(payment, command, context)
        assert payment == before, "a decision changes nothing by itself"
        assert decision == commands.decide(copy.deepcopy(payment), command, context), "deterministic"
        if isinstance(decision, Rejection):
            operation = OPERATIONS[command.operation]
            assert not operation.scope or decision.code in codes_of(operation), "OpenAPI names every refusal"
            assert decision.detail
            continue
        _one_step(payment, decision)
        decisions.append(decision)
        payment = cases.apply(payment, decision)
    return payment, decisions


def _one_step(before: Payment, decision: Decision) -> None:
    intent = decision.intent
    assert intent.version == before.intent.version + 1
    same = ("id", "merchant_id", "currency", "created_at", *(() if decision.amended else ("amount", "metadata")))
    assert all(getattr(intent, name) == getattr(before.intent, name) for name in same)
    assert (intent.next_action is None) or intent.state == "requires_action"
    assert (intent.authorized_until is not None) == (intent.amount_capturable > 0)
    assert 0 <= intent.amount_capturable <= intent.amount
    assert intent.amount_received >= before.intent.amount_received
    for posting in decision.postings:
        assert is_balanced(posting.entries)
    after = cases.apply(before, decision)
    started = [a for a in after.attempts.values() if a.kind != "refund" and a.status in OPEN]
    assert len(started) <= 1, "one attempt at a time"
    if intent.state != "canceled":  # of what was canceled, the payer may still act, and a late hold is released
        assert bool(started) == (intent.state in ("processing", "requires_action"))
    live = [
        a
        for a in after.attempts.values()
        if a.kind in ("authorize", "purchase") and a.status not in ("declined", "failed")
    ]
    assert len(live) <= 1, "invariant 9: the double-charge guard"
    if before.intent.state in ("succeeded", "canceled"):
        taken = decision.caused_by or decision.attempt
        assert taken is not None
        after_cancel = before.intent.state == "canceled" and intent.state == "canceled" and taken.kind != "capture"
        is_money = taken.status == "captured" or taken.kind == "refund" or after_cancel
        assert is_money, "terminal for commands, never for money facts"


@settings(max_examples=300, deadline=None)
@given(creates, steps)
def test_decisions_are_total_deterministic_and_keep_the_rules_of_every_step(
    create: Command, history: list[Any]
) -> None:
    folded(create, history)


@settings(max_examples=300, deadline=None)
@given(creates, steps, schedules)
def test_the_ledger_tells_the_same_story_as_the_intent(create: Command, history: list[Any], fees: FeeSchedule) -> None:
    """Invariants 6, 7 and 10 from postings alone: captures, holds and fees add up to what the intent says."""
    payment, decisions = folded(create, history, Context(now=1, fees=fees, processor=cases.PROCESSOR))
    intent = payment.intent
    balance: Counter[str] = Counter()
    references = [p.reference for d in decisions for p in d.postings]
    assert len(set(references)) == len(references), "a fact posts once"
    for entry in (e for d in decisions for p in d.postings for e in p.entries):
        assert entry.currency == intent.currency
        balance[entry.account_id.removesuffix(f":{intent.currency}")] += entry.debit - entry.credit
    refunds = list(payment.refunds.values())  # of late captures of a canceled payment
    captured = [a.amount for a in payment.attempts.values() if a.status == "captured"]
    platform = sum(min(a, fee_minor(a, fees.platform_bps) + fees.platform_fixed_minor) for a in captured)
    processor = sum(fee_minor(a, fees.processor_bps) for a in captured)
    assert intent.amount_received == sum(captured)
    expected = {
        "auth_hold:simulator": intent.amount_capturable,
        "auth_obligation:m_1": -intent.amount_capturable,
        "processor_receivable:simulator": sum(captured) - processor - intent.amount_refunded,
        "merchant_pending:m_1": -intent.amount_pending,
        "merchant_available:m_1": sum(r.amount - r.from_pending for r in refunds if r.state != "failed"),
        "refund_in_flight:simulator": -sum(r.amount for r in refunds if r.state == "pending"),
        "platform_fee_income": -platform,
        "processor_fee_expense:simulator": processor,
    }
    assert {a: b for a, b in balance.items() if b} == {a: b for a, b in expected.items() if b}
    kinds = Counter(p.kind for d in decisions for p in d.postings)
    assert kinds["capture"] == len(captured), "invariant 6: captured attempts and capture transactions are one to one"
    if intent.state == "succeeded":
        assert intent.amount_received > 0
    if intent.state not in ("requires_capture", "processing") and intent.amount_capturable:
        assert intent.state == "canceled", "no hold is forgotten"
        assert any(a.kind == "void" for a in payment.attempts.values()), "and its release was asked for"


@settings(max_examples=200, deadline=None)
@given(creates, steps, st.randoms(use_true_random=False))
def test_facts_told_again_change_nothing(create: Command, history: list[Any], chance: Any) -> None:
    """Whatever was told is told again at any later time: refused, or (a doubt about what is still open) without money."""
    payment, decisions = folded(create, history)
    facts = [d.attempt for d in decisions if d.attempt and d.attempt.status not in ("created", *OPEN)]
    for attempt in chance.sample(facts, len(facts)):
        fact = cases.fact(payment, attempt.status, number=attempt.attempt, provider_ref=attempt.provider_ref)
        answer = commands.decide(payment, fact, cases.CONTEXT)
        if attempt.status != payment.attempts[attempt.attempt].status:
            continue  # overtaken by a money fact since
        assert isinstance(answer, Rejection), answer
        assert answer.code in ("stale_fact", "contradicts_attempt")


@settings(max_examples=200, deadline=None)
@given(
    st.permutations(["pending", "unknown", "captured", "captured", "manual_review", "declined", "failed"]),
    st.integers(1, 7),
)
def test_facts_of_a_purchase_in_any_order_never_lose_money(order: list[str], told_so_far: int) -> None:
    """The end depends on which facts came, not on their order: taken once it was taken, refused if only refused."""
    payment, said = cases.after(cases.after(None, cases.create()), cases.confirm()), order[:told_so_far]
    for status in said:
        decision = commands.decide(payment, cases.fact(payment, status), cases.CONTEXT)
        if isinstance(decision, Decision):
            payment = cases.apply(payment, decision)
    if "captured" in said:
        assert (payment.intent.state, payment.intent.amount_received) == ("succeeded", cases.AMOUNT)
    elif {"declined", "failed"} & set(said):
        assert payment.intent.state == "requires_payment_method"
    else:
        assert payment.intent.state == "processing"
        assert payment.attempts[1].status == ("manual_review" if "manual_review" in said else said[-1])


@given(st.integers(1, 2**53 - 1), st.integers(0, 10_000))
def test_a_fee_is_never_more_than_the_amount_and_off_by_less_than_one_unit(amount: int, bps: int) -> None:
    fee = fee_minor(amount, bps)
    assert 0 <= fee <= amount
    assert -5_000 <= fee * 10_000 - amount * bps <= 5_000
