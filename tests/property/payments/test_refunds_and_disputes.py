"""Refunds, disputes, partial captures, settlement lines and late facts in any order: no unit is lost or paid twice.

Stateful: after every step the cap holds, the ledger balances, and the amounts of the payment are those of its ledger.
Source: trap 8 (refund x dispute x partial capture) and trap 6 (facts out of order).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dataflows.payments.domain import commands
from dataflows.payments.domain.decision import Decision, Payment
from dataflows.payments.domain.dispute import FUNDS_RANK, STATE_RANK
from dataflows.payments.domain.fact import OPEN
from dataflows.payments.domain.ledger.posting import is_balanced
from dataflows.payments.domain.policies.fees import fee_minor
from schemas.records import Command
from tests.gate import examples
from tests.worlds.payments import payment_cases as cases

ACTIVE = ("pending", "requires_action", "succeeded")
COUNTED = ("needs_response", "under_review", "appeal_needs_response", "appeal_under_review", "lost")
STATES, FUNDS = sorted(STATE_RANK), sorted(FUNDS_RANK)


class Book:
    """What a history posted: balances (debits minus credits) and references."""

    def __init__(self) -> None:
        self.balances: Counter[str] = Counter()
        self.references: set[str] = set()

    def take(self, decision: Decision) -> None:
        """Adds the postings of a decision, each balanced and never posted before."""
        for posting in decision.postings:
            assert is_balanced(posting.entries)
            assert posting.reference not in self.references, "a fact posts once"
            self.references.add(posting.reference)
            for entry in posting.entries:
                self.balances[entry.account_id.removesuffix(":USD")] += entry.debit - entry.credit

    def moved(self) -> dict[str, int]:
        """Accounts that are not at zero."""
        return {account: amount for account, amount in self.balances.items() if amount}


class RefundsAndDisputes(RuleBasedStateMachine):
    """One payment, everything that merchants, processors and banks may do to it."""

    def __init__(self) -> None:
        super().__init__()
        self.book = Book()
        self.payment = Payment(intent=cases.decided(None, cases.create()).intent, attempts={})
        self.number = 0
        self.granted = 0

    def play(self, command: Command) -> bool:
        """True when it is decided; what is refused changes nothing."""
        decision = commands.decide(self.payment, command, cases.CONTEXT)
        if not isinstance(decision, Decision):
            return False
        before = self.payment.intent
        self.book.take(decision)
        self.payment = cases.apply(self.payment, decision)
        if command.operation in (cases.REFUND, cases.DISPUTE, cases.LINE):
            assert self.payment.intent.state == before.state, "the state of an intent never changes by these"
        return True

    @initialize(amount=st.integers(1, 20_000), manual=st.booleans())
    def start(self, amount: int, manual: bool) -> None:
        create = cases.create(amount=amount, capture="manual" if manual else "automatic")
        self.payment = cases.after(None, create)
        self.play(cases.confirm())

    @rule(amount=st.none() | st.integers(1, 20_000))
    def refund(self, amount: int | None) -> None:
        self.number += 1
        left, at_once = cases_refundable(self.payment), room_of_one_capture(self.payment)
        done = self.play(cases.refund(amount, key=f"r{self.number}"))
        wanted = left if amount is None else amount
        can = self.payment.intent.amount_received > 0 and 0 < wanted <= min(left, at_once)
        assert done == can, "the cap, to the last unit"

    @rule(amount=st.none() | st.integers(1, 20_000), final=st.booleans())
    def capture(self, amount: int | None, final: bool) -> None:
        self.play(cases.capture(amount, final=final))

    @rule()
    def cancel(self) -> None:
        self.play(cases.cancel())

    @precondition(lambda self: self.payment.attempts)
    @rule(data=st.data())
    def fact(self, data: st.DataObject) -> None:
        """About any attempt, at any time: the truth mostly, sometimes twice, sometimes late."""
        attempt = data.draw(st.sampled_from(sorted(self.payment.attempts)))
        kind = self.payment.attempts[attempt].kind
        truth = {"authorize": "authorized", "void": "voided", "refund": "refunded"}.get(kind, "captured")
        said = data.draw(st.sampled_from([truth, truth, truth, "failed", "declined", "unknown", "failed_later"]))
        if said == "failed_later":
            if kind == "refund":
                self.play(cases.failed_later(self.payment, attempt))
            return
        self.play(cases.fact(self.payment, said, number=attempt))

    @rule(state=st.sampled_from(STATES), funds=st.sampled_from(FUNDS), which=st.integers(1, 2))
    def dispute(self, state: str, funds: str, which: int) -> None:
        self.play(cases.dispute(state, funds, amount=1_000 * which, ref=f"dis_{which}"))

    @precondition(lambda self: self.payment.attempts)
    @rule(data=st.data(), finding=st.sampled_from(["matched", "matched", "short", "over", "duplicate"]))
    def line(self, data: st.DataObject, finding: str) -> None:
        self.number += 1
        attempt = data.draw(st.sampled_from(sorted(self.payment.attempts)))
        difference = 0 if finding == "matched" else data.draw(st.integers(1, 50))
        fee = data.draw(st.integers(0, 200))
        self.play(cases.line(self.payment, attempt, finding, difference, fee=fee, line_id=f"line_{self.number}"))

    @invariant()
    def caps_hold(self) -> None:
        """Invariant 8, apart from disputes that came after the refund of the same money."""
        intent = self.payment.intent
        active = sum(r.amount for r in self.payment.refunds.values() if r.state in ACTIVE)
        assert 0 <= intent.amount_refunded <= active <= intent.amount_received <= intent.amount

    @invariant()
    def amounts_are_those_of_the_parts(self) -> None:
        """Invariant 7."""
        payment, intent = self.payment, self.payment.intent
        assert intent.amount_refunded == sum(r.amount for r in payment.refunds.values() if r.state == "succeeded")
        assert intent.amount_disputed == sum(
            d.amount
            for d in payment.disputes.values()
            if d.state in COUNTED
            or (d.state in ("warning_needs_response", "warning_under_review") and d.funds == "withdrawn")
        )
        for refund in payment.refunds.values():
            status = payment.attempts[refund.attempt].status
            expected = {"pending": OPEN, "succeeded": {"refunded"}, "failed": {"failed", "declined"}}
            assert status in expected[refund.state], (refund, status)

    @invariant()
    def the_ledger_tells_the_same_story(self) -> None:
        """Invariants 6, 7, 10 and 17: every account that a payment moves, from what the payment says of itself."""
        payment, intent, held = self.payment, self.payment.intent, self.book.balances
        captured = [a.amount for a in payment.attempts.values() if a.status == "captured"]
        platform = sum(fee_minor(amount, cases.CONTEXT.fees.platform_bps) for amount in captured)
        withdrawn = sum(d.amount for d in payment.disputes.values() if d.funds == "withdrawn" and d.state != "lost")
        gone = sum(d.amount for d in payment.disputes.values() if d.funds == "withdrawn")
        in_flight = sum(r.amount for r in payment.refunds.values() if r.state == "pending")
        assert held["auth_hold:simulator"] == intent.amount_capturable
        assert held["merchant_pending:m_1"] == -intent.amount_pending <= 0
        assert held["refund_in_flight:simulator"] == -in_flight
        assert held["dispute_receivable:simulator"] == -held["merchant_dispute_hold:m_1"] == withdrawn
        assert held["platform_fee_income"] == -platform
        merchant = held["merchant_pending:m_1"] + held["merchant_available:m_1"]
        assert -merchant == sum(captured) - platform - intent.amount_refunded - in_flight - gone, "no unit is lost"
        assert sum(held.values()) == 0

    @invariant()
    def nothing_stays_pending_once_everything_is_settled(self) -> None:
        captures = [a for a in self.payment.attempts.values() if a.status == "captured"]
        unsettled = sum(cases.CONTEXT.fees.merchant_share(a.amount) for a in captures if a.settled_line is None)
        assert self.payment.intent.amount_pending <= unsettled


def cases_refundable(payment: Payment) -> int:
    """The documented cap, reckoned here: received, less refunds that live, less what is disputed."""
    active = sum(r.amount for r in payment.refunds.values() if r.state in ACTIVE)
    return max(0, payment.intent.amount_received - active - payment.intent.amount_disputed)


def room_of_one_capture(payment: Payment) -> int:
    """The most that any one capture has left to give back; here each has a name of its own."""
    room = {f"pr_{a.attempt}": a.amount for a in payment.attempts.values() if a.status == "captured"}
    for refund in payment.refunds.values():
        if refund.state in ACTIVE:
            room[str(payment.attempts[refund.attempt].parent_ref)] -= refund.amount
    return max(room.values(), default=0)


TestRefundsAndDisputes = RefundsAndDisputes.TestCase
TestRefundsAndDisputes.settings = settings(max_examples=examples(50, 200), stateful_step_count=40, deadline=None)


def told(payment: Payment, which: str) -> Command:
    """One of the facts that are permuted below, as every door tells it."""
    match which.split():
        case ["captured"]:
            return cases.fact(payment, "captured", number=1)
        case ["refunded", number]:
            return cases.fact(payment, "refunded", number=int(number))
        case ["failed_later", number]:
            return cases.failed_later(payment, int(number))
        case ["settled", number]:
            return cases.line(payment, int(number), fee=77)
        case [status, funds, ref, *due]:
            return cases.dispute(status, funds, amount=2_000, ref=ref, evidence_due_by=int(due[0]) if due else None)
    raise ValueError(which)


TRUE_FACTS = (
    *("refunded 2", "refunded 2", "failed_later 2", "refunded 3", "settled 1"),
    *("needs_response none dis_1", "needs_response withdrawn dis_1", "lost withdrawn dis_1"),
    *("won reinstated dis_2", "needs_response withdrawn dis_2 60"),
    *("warning_needs_response none dis_3 90", "needs_response none dis_3 30", "needs_response none dis_3 20"),
)


@settings(max_examples=examples(75, 300), deadline=None)
@given(st.permutations(TRUE_FACTS), st.randoms(use_true_random=False))
def test_the_same_facts_in_any_order_and_any_number_of_copies_end_alike(order: list[str], chance: Any) -> None:
    """Doors tell the same facts in their own order: answer, webhook, poll and settlement line."""
    copies = [*order, *chance.choices(order, k=5)]
    expected, book = ends(list(TRUE_FACTS))
    payment, found = ends(copies)
    assert found.moved() == book.moved()
    assert found.references == book.references
    assert comparable(payment) == comparable(expected)


def ends(facts: list[str]) -> tuple[Payment, Book]:
    """The payment with two refunds under way after these facts, and what they posted."""
    payment, book = cases.refunding(3_000, cases.refunding(4_000), key="r2"), Book()
    for which in facts:
        decision = commands.decide(payment, told(payment, which), cases.CONTEXT)
        if isinstance(decision, Decision):
            book.take(decision)
            payment = cases.apply(payment, decision)
    return payment, book


def comparable(payment: Payment) -> dict[str, Any]:
    """Everything but versions: how many facts were stale depends on their order."""
    intent = payment.intent
    return {
        "intent": (
            intent.state,
            intent.amount_received,
            intent.amount_refunded,
            intent.amount_disputed,
            intent.amount_pending,
        ),
        "attempts": [(a.status, a.settled_line, a.error_code) for _, a in sorted(payment.attempts.items())],
        "refunds": {r.id: (r.state, r.failure_reason) for r in payment.refunds.values()},
        "disputes": {d.id: (d.state, d.funds, d.fee, d.evidence_due_by) for d in payment.disputes.values()},
    }
