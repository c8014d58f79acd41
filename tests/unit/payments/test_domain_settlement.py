"""Settlement lines: money matures once, and differences wait in suspense."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from dataflows.payments.domain import commands
from dataflows.payments.domain.decision import Context, Decision
from dataflows.payments.domain.policies.fees import FeeSchedule
from tests.each import each
from tests.worlds.payments import payment_cases as cases

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
        # the line is of 10,000 with a fee of 60: with it the receivable holds what a payout of it brings
        assert moved(decision) == {
            "processor_receivable:simulator": 9_940 - 60,
            "recon_suspense:simulator": -9_940,
            "processor_fee_expense:simulator": 60,
        }
        assert [p.reference for p in decision.postings] == [
            "simulator:report_1:1:duplicate:duplicate",
            "simulator:report_1:1:duplicate:fee",
        ]
        assert decision.intent.amount_pending == payment.intent.amount_pending
        assert decision.attempt is not None
        assert decision.attempt.settled_line == payment.attempts[1].settled_line


#: the lines of a charge of 10,000 with an accrued fee of 60, as finding, gross, fee and difference: what all of them leave
HISTORIES: dict[str, tuple[list[tuple[str, int, int, int]], dict[str, int]]] = {
    "as expected": ([("matched", 10_000, 60, 0)], {"suspense": 0}),
    "another fee": ([("matched", 10_000, 75, 0)], {"suspense": 0}),
    "short": ([("short", 9_993, 60, 7)], {"suspense": 7}),
    "over": ([("over", 10_009, 60, 9)], {"suspense": -9}),
    "two halves": ([("short", 5_000, 29, 5_000), ("duplicate", 5_000, 31, 5_000)], {"suspense": 0}),
    "three parts": (
        [("short", 3_000, 18, 7_000), ("duplicate", 3_000, 18, 3_000), ("duplicate", 4_000, 24, 4_000)],
        {"suspense": 0},
    ),
    "a part short": ([("short", 5_000, 30, 5_000), ("duplicate", 4_000, 24, 4_000)], {"suspense": 1_000}),
    "paid twice": ([("matched", 10_000, 60, 0), ("duplicate", 10_000, 60, 10_000)], {"suspense": -10_000}),
    "paid twice, and free": ([("matched", 10_000, 60, 0), ("duplicate", 10_000, 0, 10_000)], {"suspense": -10_000}),
    "paid twice, and a fee back": ([("matched", 10_000, 60, 0), ("duplicate", 9, -2, 9)], {"suspense": -9}),
}


@each("name", HISTORIES)
def test_the_processor_owes_what_its_lines_pay_out(name: str) -> None:
    """After capture and lines: the receivable is gross less fee of all lines, the expense all fees, the rest suspense."""
    lines, left = HISTORIES[name]
    payment, total = PAID, Counter({"processor_receivable:simulator": 9_940, "processor_fee_expense:simulator": 60})
    references: list[str] = []
    for number, (finding, gross, fee, difference) in enumerate(lines):
        said = {"gross": gross, "fee": fee, "line_id": f"ln_{number}"}
        decision = cases.decided(payment, cases.line(payment, 1, finding, difference, **said))
        total.update(moved(decision))
        references += [p.reference for p in decision.postings]
        payment = cases.apply(payment, decision)
    assert total["processor_receivable:simulator"] == sum(gross - fee for _, gross, fee, _ in lines)
    assert total["processor_fee_expense:simulator"] == sum(fee for _, _, fee, _ in lines)
    assert total["recon_suspense:simulator"] == left["suspense"]
    assert total["merchant_available:m_1"] == -SHARE
    assert len(references) == len(set(references))


def test_a_fee_of_a_refund_is_booked_with_its_line() -> None:
    """None was accrued. The second line of it takes the refund again, and its own fee."""
    payment = cases.told(cases.refunding(4_000), "refunded")
    decision = cases.decided(payment, cases.line(payment, 2, fee=30))
    assert moved(decision) == {"processor_receivable:simulator": -30, "processor_fee_expense:simulator": 30}
    twice = cases.decided(payment, cases.line(payment, 2, "duplicate", 4_000, fee=30))
    assert moved(twice)["processor_receivable:simulator"] == -4_030


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


def test_the_last_of_several_captures_takes_all_that_is_left() -> None:
    """Whatever the fees are by then: a share that is counted anew would leave something pending for ever."""
    payment = cases.authorized()
    for amount in (3_000, 7_000):
        payment = cases.told(cases.after(payment, cases.capture(amount, final=False)), "captured")
    payment = cases.after(payment, cases.line(payment, 2))
    dearer = Context(now=1, fees=FeeSchedule(platform_bps=300), processor=cases.PROCESSOR)
    decision = commands.decide(payment, cases.line(payment, 3), dearer)
    assert isinstance(decision, Decision)
    assert decision.intent.amount_pending == 0


def test_a_refusal_says_what_is_known() -> None:
    settled = cases.after(PAID, cases.line(PAID, 1))
    again = cases.refused(settled, cases.line(settled, 1, line_id="report_2:9"))
    assert again.extra == {"settled_line": "report_1:1:matched"}
    assert cases.refused(PAID, cases.line(PAID, 1, currency="EUR")).extra == {"currency": "USD"}


@pytest.mark.parametrize(("gross", "gained"), [(1, 9), (0, -9), (-1, -9)])
def test_a_duplicate_is_a_gain_only_when_it_gave_us_money(gross: int, gained: int) -> None:
    decision = cases.decided(PAID, cases.line(PAID, 1, "duplicate", 9, gross=gross, fee=0))
    assert moved(decision) == {"processor_receivable:simulator": gained, "recon_suspense:simulator": -gained}


@pytest.mark.parametrize("finding", ["short", "over", "duplicate"])
def test_a_difference_is_named_by_what_it_is(finding: str) -> None:
    decision = cases.decided(PAID, cases.line(PAID, 1, finding, 9, fee=0))
    assert decision.postings[-1].kind == f"settlement_{finding}"


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
        refusal = cases.refused(payment, cases.line(payment, 1))
        assert (refusal.code, refusal.extra) == ("contradicts_attempt", {"current_state": payment.attempts[1].status})
    other = cases.line(PAID, 1)
    other.scope = "processor:simulator"
    assert cases.refused(PAID, other).code == "not_found"


def test_refunds_that_fail_give_no_more_back_as_pending_than_is_unsettled() -> None:
    """One of two captures is settled while two refunds are under way: what the second gives back is available."""
    payment = cases.authorized()
    for amount in (6_000, 4_000):
        payment = cases.told(cases.after(payment, cases.capture(amount, final=False)), "captured")
    for number, amount in enumerate((6_000, 4_000)):
        payment = cases.refunding(amount, payment, key=f"r{number}")
    pending = [payment.intent.amount_pending]
    payment = cases.after(payment, cases.line(payment, 2))
    for number in (4, 5):
        payment = cases.told(payment, "failed", number=number)
        pending.append(payment.intent.amount_pending)
    assert pending == [0, 3_940, 3_940]
