"""The posting table, line by line, and the fees in it."""

from __future__ import annotations

import pytest

from dataflows.payments.domain.ledger import ledger
from dataflows.payments.domain.ledger.posting import Posting, is_balanced
from dataflows.payments.domain.policies.fees import FeeSchedule, fee_minor
from schemas.payments.records import LedgerEntry
from tests.each import each
from tests.worlds.payments import payment_cases as cases

PARTIES = ledger.Parties("sim", "m_1", "USD")
NO_FEES = FeeSchedule(platform_bps=0, processor_bps=0)
FEES = FeeSchedule(platform_bps=150, processor_bps=60)


def lines(posting: Posting) -> list[tuple[str, int, int]]:
    assert is_balanced(posting.entries)
    assert all(e.account_id.endswith(":USD") and e.currency == "USD" for e in posting.entries)
    return [(e.account_id.removesuffix(":USD"), e.debit, e.credit) for e in posting.entries]


def test_authorize() -> None:
    posting = ledger.authorize("op_1", 500, PARTIES)
    assert lines(posting) == [("auth_hold:sim", 500, 0), ("auth_obligation:m_1", 0, 500)]
    assert (posting.reference, posting.kind) == ("op_1:authorize", "authorize")


def test_void_releases_what_is_left() -> None:
    posting = ledger.void("op_2", 300, PARTIES)
    assert lines(posting) == [("auth_obligation:m_1", 300, 0), ("auth_hold:sim", 0, 300)]
    assert (posting.reference, posting.kind) == ("op_2:void", "void")


def test_a_hold_that_ended_by_itself_is_a_posting_of_its_own() -> None:
    """A void that comes too late may be posted beside it: two references."""
    posting = ledger.expire("op_2", 300, PARTIES)
    assert lines(posting) == [("auth_obligation:m_1", 300, 0), ("auth_hold:sim", 0, 300)]
    assert (posting.reference, posting.kind) == ("op_2:expired", "expire")


@pytest.mark.parametrize("made", [PARTIES, ledger.void("op_2", 300, PARTIES)], ids=["parties", "posting"])
def test_what_is_posted_is_never_changed(made: object) -> None:
    with pytest.raises(AttributeError, match="immutable"):
        setattr(made, "reference" if isinstance(made, Posting) else "merchant", "another")


@pytest.mark.parametrize(
    ("captured", "released"), [(500, 500), (200, 500), (200, 200)], ids=["full", "partial final", "partial"]
)
def test_capture_takes_from_the_hold(captured: int, released: int) -> None:
    assert lines(ledger.capture("op_3", captured, released, PARTIES, NO_FEES)) == [
        ("auth_obligation:m_1", released, 0),
        ("auth_hold:sim", 0, released),
        ("processor_receivable:sim", captured, 0),
        ("merchant_pending:m_1", 0, captured),
    ]


def test_a_purchase_or_late_capture_has_no_hold() -> None:
    posting = ledger.capture("op_4", 500, 0, PARTIES, NO_FEES)
    assert lines(posting) == [("processor_receivable:sim", 500, 0), ("merchant_pending:m_1", 0, 500)]
    assert (posting.reference, posting.kind) == ("op_4:capture", "capture")


def test_fees_of_the_platform_and_of_the_processor() -> None:
    assert lines(ledger.capture("op_5", 10_000, 0, PARTIES, FEES)) == [
        ("processor_receivable:sim", 10_000, 0),
        ("merchant_pending:m_1", 0, 10_000),
        ("merchant_pending:m_1", 150, 0),
        ("platform_fee_income", 0, 150),
        ("processor_fee_expense:sim", 60, 0),
        ("processor_receivable:sim", 0, 60),
    ]


RECEIVABLE, IN_FLIGHT = "processor_receivable:sim", "refund_in_flight:sim"
PENDING, AVAILABLE = "merchant_pending:m_1", "merchant_available:m_1"
CLAIM, HOLD, EXPENSE = "dispute_receivable:sim", "merchant_dispute_hold:m_1", "processor_fee_expense:sim"
SUSPENSE, INCOME = "recon_suspense:sim", "platform_fee_income"
#: every posting after the capture: reference, kind, and (debit, credit, amount) line by line, from the reference
TABLE = {
    "refund created": (
        ledger.refund_created("re_1", 500, 300, PARTIES),
        ("re_1:created", "refund", [(PENDING, IN_FLIGHT, 300), (AVAILABLE, IN_FLIGHT, 200)]),
    ),
    "refund succeeded": (
        ledger.refund_succeeded("op_2", 500, 0, PARTIES),
        ("op_2:refunded", "refund_succeeded", [(IN_FLIGHT, RECEIVABLE, 500)]),
    ),
    "refund succeeded, fee returned": (
        ledger.refund_succeeded("op_2", 500, 8, PARTIES),
        ("op_2:refunded", "refund_succeeded", [(IN_FLIGHT, RECEIVABLE, 500), (INCOME, AVAILABLE, 8)]),
    ),
    "refund failed": (
        ledger.refund_failed("op_2:refund_failed", "refund_failed", 500, 300, PARTIES),
        ("op_2:refund_failed", "refund_failed", [(IN_FLIGHT, PENDING, 300), (IN_FLIGHT, AVAILABLE, 200)]),
    ),
    "refund succeeded late": (
        ledger.refund_succeeded_late("op_2", 500, 300, 8, PARTIES),
        (
            "op_2:refunded",
            "refund_succeeded",
            [(PENDING, RECEIVABLE, 300), (AVAILABLE, RECEIVABLE, 200), (INCOME, AVAILABLE, 8)],
        ),
    ),
    "refund failed later": (
        ledger.refund_failed_later("op_2", 500, 300, -8, PARTIES),
        (
            "op_2:failed_later",
            "refund_failed_later",
            [(RECEIVABLE, PENDING, 300), (RECEIVABLE, AVAILABLE, 200), (AVAILABLE, INCOME, 8)],
        ),
    ),
    "dispute withdrawn": (
        ledger.dispute_withdrawn("dp_1", 500, 15, PARTIES),
        (
            "dp_1:withdrawn",
            "dispute_withdrawn",
            [(CLAIM, RECEIVABLE, 500), (AVAILABLE, HOLD, 500), ("dispute_fee_expense:sim", RECEIVABLE, 15)],
        ),
    ),
    "dispute reinstated": (
        ledger.dispute_reinstated("dp_1", 500, PARTIES),
        ("dp_1:reinstated", "dispute_reinstated", [(RECEIVABLE, CLAIM, 500), (HOLD, AVAILABLE, 500)]),
    ),
    "dispute reinstated after its loss": (
        ledger.dispute_reinstated("dp_1", 500, PARTIES, after_loss=True),
        ("dp_1:reinstated", "dispute_reinstated", [(RECEIVABLE, AVAILABLE, 500)]),
    ),
    "dispute lost": (ledger.dispute_lost("dp_1", 500, PARTIES), ("dp_1:lost", "dispute_lost", [(HOLD, CLAIM, 500)])),
    "dispute appealed": (
        ledger.dispute_appealed("dp_1", 500, PARTIES),
        ("dp_1:appealed", "dispute_appealed", [(CLAIM, HOLD, 500)]),
    ),
    "settled": (ledger.settled("op_1", 500, 0, PARTIES), ("op_1:settled", "settled", [(PENDING, AVAILABLE, 500)])),
    "settled for a higher fee": (
        ledger.settled("op_1", 500, 4, PARTIES),
        ("op_1:settled", "settled", [(PENDING, AVAILABLE, 500), (EXPENSE, RECEIVABLE, 4)]),
    ),
    "settled for a lower fee": (
        ledger.settled("op_1", 500, -4, PARTIES),
        ("op_1:settled", "settled", [(PENDING, AVAILABLE, 500), (RECEIVABLE, EXPENSE, 4)]),
    ),
    "a fee that was not accrued": (
        ledger.settlement_fee("sim:line:fee", 4, PARTIES),
        ("sim:line:fee", "settlement_fee", [(EXPENSE, RECEIVABLE, 4)]),
    ),
    "a fee given back": (
        ledger.settlement_fee("sim:line:fee", -4, PARTIES),
        ("sim:line:fee", "settlement_fee", [(RECEIVABLE, EXPENSE, 4)]),
    ),
    "settled short": (
        ledger.settlement_difference("sim:line:short", "settlement_short", -7, PARTIES),
        ("sim:line:short", "settlement_short", [(SUSPENSE, RECEIVABLE, 7)]),
    ),
    "settled over": (
        ledger.settlement_difference("sim:line:over", "settlement_over", 7, PARTIES),
        ("sim:line:over", "settlement_over", [(RECEIVABLE, SUSPENSE, 7)]),
    ),
}


@each("row", TABLE)
def test_the_posting_table_line_by_line(row: str) -> None:
    posting, (reference, kind, moves) = TABLE[row]
    assert (posting.reference, posting.kind) == (reference, kind)
    assert lines(posting) == [side for debit, credit, n in moves for side in ((debit, n, 0), (credit, 0, n))]


@each(
    ("amount", "bps", "fee"),
    [
        (1, 150, 0),
        (33, 150, 0),  # 0.495
        (34, 150, 1),  # 0.51
        (100, 150, 2),  # 1.5, half up
        (1, 5_000, 1),  # half up, even of one unit
        (1, 10_000, 1),
        (2**53 - 1, 10_000, 2**53 - 1),
        (2**53 - 1, 1, 900_719_925_474),  # 900719925474.0991
        (12_345, 0, 0),
    ],
)
def test_a_fee_is_rounded_half_up_to_a_whole_unit(amount: int, bps: int, fee: int) -> None:
    assert fee_minor(amount, bps) == fee


def entry(debit: int, credit: int, currency: str = "USD") -> LedgerEntry:
    return LedgerEntry(f"a:{currency}", debit, credit, currency)


@each(
    "entries",
    [
        [],
        [entry(1, 0)],
        [entry(1, 0), entry(0, 2)],
        [entry(1, 0), entry(0, 1, "EUR")],
        [entry(1, 1), entry(1, 1)],
        [entry(0, 0), entry(1, 0), entry(0, 1)],
        [entry(-1, 0), entry(0, -1)],
        [entry(2, -1), entry(0, 3)],
    ],
)
def test_what_is_not_balanced(entries: list[LedgerEntry]) -> None:
    assert not is_balanced(entries)


def test_each_currency_balances_for_itself() -> None:
    assert is_balanced([entry(1, 0), entry(0, 1), entry(7, 0, "EUR"), entry(0, 7, "EUR")])


def test_one_balanced_currency_excuses_no_other() -> None:
    assert not is_balanced([entry(1, 0), entry(0, 1), entry(7, 0, "EUR"), entry(0, 8, "EUR")])


def test_references_of_one_payment_are_unique_for_ever() -> None:
    """A fact posts once whatever door it came through: the reference is the attempt's identity and the kind."""
    payment = cases.after(None, cases.create(capture="manual"))
    found: list[str] = []
    for command, status in (
        (cases.confirm(), "declined"),
        (cases.confirm("tok_b"), "authorized"),
        (cases.capture(1_000, final=False), "captured"),
        (cases.capture(2_000, final=False), "captured"),
        (cases.cancel(), "voided"),
    ):
        payment = cases.after(payment, command)
        decision = cases.decided(payment, cases.fact(payment, status))
        found += [p.reference for p in decision.postings]
        payment = cases.apply(payment, decision)
    assert found == ["op_case_2:authorize", "op_case_3:capture", "op_case_4:capture", "op_case_5:void"]
