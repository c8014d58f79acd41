"""Settlement lines and journal entries: money matures once, differences wait in suspense, nothing unbalanced is kept."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from dataflows.domain import commands
from dataflows.domain.decision import Context, Decision
from dataflows.domain.fees import FeeSchedule
from dataflows.domain.journal import JournalEntry, decide_post
from schemas.records import Rejection
from tests import payment_cases as cases

SHARE = 9_850
PAID = cases.paid()


def moved(decision: Decision) -> dict[str, int]:
    found: Counter[str] = Counter()
    for entry in (e for p in decision.postings for e in p.entries):
        found[entry.account_id.removesuffix(":USD")] += entry.debit - entry.credit
    return {account: amount for account, amount in found.items() if amount}


def test_a_matched_line_matures_the_merchants_share_once() -> None:
    decision = cases.decided(PAID, cases.line(PAID, 1))
    assert moved(decision) == {"merchant_pending:m_1": SHARE, "merchant_available:m_1": -SHARE}
    assert [p.reference for p in decision.postings] == ["op_case_1:settled"]
    settled = cases.apply(PAID, decision)
    assert (settled.intent.amount_pending, settled.attempts[1].settled_line) == (0, "report_1:1:matched")
    again = cases.line(settled, 1, line_id="report_2:9")
    assert cases.refused(settled, again).code == "stale_fact"


@pytest.mark.parametrize(("fee", "difference"), [(75, 15), (60, 0), (40, -20), (-5, -65)])
def test_the_accrued_fee_becomes_what_was_taken(fee: int, difference: int) -> None:
    found = moved(cases.decided(PAID, cases.line(PAID, 1, fee=fee)))
    assert found.get("processor_fee_expense:simulator", 0) == difference
    assert found.get("processor_receivable:simulator", 0) == -difference


@pytest.mark.parametrize(("finding", "gained"), [("short", -7), ("over", 7)])
def test_a_difference_waits_in_suspense_and_the_merchant_gets_its_share(finding: str, gained: int) -> None:
    decision = cases.decided(PAID, cases.line(PAID, 1, finding, 7))
    found = moved(decision)
    assert found["merchant_available:m_1"] == -SHARE
    assert (found["processor_receivable:simulator"], found["recon_suspense:simulator"]) == (gained, -gained)
    assert [p.reference for p in decision.postings] == [
        "op_case_1:settled",
        f"simulator:report_1:1:{finding}:{finding}",
    ]


def test_a_duplicate_is_a_difference_whether_it_comes_first_or_last() -> None:
    for payment in (PAID, cases.after(PAID, cases.line(PAID, 1))):
        decision = cases.decided(payment, cases.line(payment, 1, "duplicate", 9_940))
        assert moved(decision) == {"processor_receivable:simulator": 9_940, "recon_suspense:simulator": -9_940}
        assert decision.intent.amount_pending == payment.intent.amount_pending
        assert decision.attempt is not None
        assert decision.attempt.settled_line == payment.attempts[1].settled_line


def test_a_refund_that_is_settled_is_marked_and_moves_nothing() -> None:
    payment = cases.told(cases.refunding(4_000), "refunded")
    decision = cases.decided(payment, cases.line(payment, 2))
    assert decision.postings == ()
    assert cases.apply(payment, decision).attempts[2].settled_line == "report_1:2:matched"
    twice = cases.decided(payment, cases.line(payment, 2, "duplicate", 4_000))
    assert moved(twice) == {"processor_receivable:simulator": -4_000, "recon_suspense:simulator": 4_000}


def test_a_refund_that_failed_later_is_settled_all_the_same() -> None:
    payment = cases.told(cases.refunding(4_000), "refunded")
    payment = cases.after(payment, cases.failed_later(payment, 2))
    assert cases.decided(payment, cases.line(payment, 2)).postings == ()


def test_parts_mature_one_by_one_and_the_last_takes_what_is_left() -> None:
    payment = cases.authorized()
    for amount in (3_000, 7_000):
        payment = cases.told(cases.after(payment, cases.capture(amount, final=False)), "captured")
    payment = cases.refunding(6_000, payment)
    left = [payment.intent.amount_pending]
    for number in (2, 3):
        payment = cases.after(payment, cases.line(payment, number))
        left.append(payment.intent.amount_pending)
    assert left == [SHARE - 6_000, SHARE - 6_000 - 2_955, 0]


def test_nothing_stays_pending_when_the_fees_have_changed_since_the_capture() -> None:
    for bps in (0, 300):
        context = Context(now=1, fees=FeeSchedule(platform_bps=bps), processor=cases.PROCESSOR)
        decision = commands.decide(PAID, cases.line(PAID, 1), context)
        assert isinstance(decision, Decision)
        assert decision.intent.amount_pending == 0
        assert moved(decision) == {"merchant_pending:m_1": SHARE, "merchant_available:m_1": -SHARE}


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"operation_id": "op_other_1"}, "not_found"),
        ({"currency": "EUR"}, "contradicts_attempt"),
        ({"difference": 1}, "invalid_command"),
        ({"finding": "short"}, "invalid_command"),
    ],
)
def test_lines_that_do_not_fit(said: dict[str, Any], code: str) -> None:
    assert cases.refused(PAID, cases.line(PAID, 1, **said)).code == code


def test_what_has_moved_no_money_cannot_be_settled() -> None:
    for state in ("processing purchase", "processing void", "requires_capture"):
        payment = cases.in_every_state()[state]
        assert cases.refused(payment, cases.line(payment, 1)).code == "state_conflict"
    other = cases.line(PAID, 1)
    other.scope = "processor:simulator"
    assert cases.refused(PAID, other).code == "not_found"


def test_a_journal_entry_is_what_was_asked_for() -> None:
    entry = decide_post(cases.journal(), exists=False)
    assert isinstance(entry, JournalEntry)
    assert (entry.posting.reference, entry.posting.kind, len(entry.posting.entries)) == ("payout:po_1", "payout", 2)


def line(account: str, debit: int, credit: int, currency: str = "USD") -> dict[str, object]:
    return {"account_id": account, "debit": debit, "credit": credit, "currency": currency}


@pytest.mark.parametrize(
    "entries",
    [
        [line("a:USD", 5, 0), line("b:USD", 0, 6)],
        [line("a:USD", 5, 0), line("b:EUR", 0, 5, "EUR")],
        [line("a:USD", 5, 5), line("b:USD", 5, 5)],
        [line("a:USD", 0, 0), line("b:USD", 0, 0)],
        [line("a", 5, 0), line("b:USD", 0, 5)],
        [line("a:EUR", 5, 0), line("b:USD", 0, 5)],
    ],
    ids=["unequal", "two currencies", "two-sided", "nothing", "no currency in the name", "another in the name"],
)
def test_what_does_not_balance_is_refused(entries: list[dict[str, object]]) -> None:
    refusal = decide_post(cases.journal(entries=entries), exists=False)
    assert isinstance(refusal, Rejection)
    assert refusal.code == "invalid_command"


def test_a_reference_is_posted_once_and_only_by_the_ledger() -> None:
    found = [
        decide_post(cases.journal(), exists=True),
        decide_post(cases.journal(scope="m_1"), exists=False),
        decide_post(cases.journal("op_case_1:capture"), exists=False),
    ]
    stranger = cases.journal()
    stranger.aggregate_key = "jr_other"
    found.append(decide_post(stranger, exists=False))
    late = cases.journal()
    late.expected_version = 1
    found.append(decide_post(late, exists=False))
    codes = [r.code if isinstance(r, Rejection) else "posted" for r in found]
    assert codes == ["state_conflict", "not_found", "invalid_command", "invalid_command", "version_conflict"]
