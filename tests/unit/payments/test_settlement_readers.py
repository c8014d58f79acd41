"""Readers of settlement reports: by column name, in bounded memory, and nothing is ever guessed."""

from __future__ import annotations

import io
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciliation.payments.settlement.line import Defect, Line, Unclassifiable, UnreadableReport
from reconciliation.payments.settlement.reports import adyen, simulator
from reconciliation.payments.settlement.reports import stripe as stripe_report
from reconciliation.payments.settlement.reports.amounts import minor_of_major
from schemas import limits
from schemas.fields.currency import EXPONENTS, format_minor
from schemas.payments import limits as payments_limits
from tests.each import each

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLES = Path(__file__).parents[4] / "shared" / "data" / "settlement"
GOOD = {"line_id": "ln_1", "report_id": "rpt_1", "type": "charge", "operation_id": "op_a_1", "reference": "pi_a",
        "provider_ref": "sim_1", "currency": "USD", "gross": "1000", "fee": "6", "net": "994", "created": "x"}  # fmt: skip


def text_of(*rows: dict[str, str], columns: tuple[str, ...] = simulator.COLUMNS) -> bytes:
    lines = [",".join(columns), *(",".join(row[name] for name in columns) for row in rows)]
    return ("\n".join(lines) + "\n").encode()


def read(data: bytes, reader: Any = simulator) -> list[Line | Defect]:
    return list(reader.read_lines(io.BytesIO(data)))


def lines_of(data: bytes, reader: Any = simulator) -> list[Line]:
    found = read(data, reader)
    assert all(isinstance(line, Line) for line in found), found
    return found  # type: ignore[return-value]  # just asserted


PLAIN = read(text_of(GOOD))


def test_a_line_is_read_as_it_stands() -> None:
    line = PLAIN[0]
    assert isinstance(line, Line)
    assert (line.line_no, line.gross, line.fee, line.net, line.operation_id) == (2, 1000, 6, 994, "op_a_1")


@given(st.permutations(simulator.COLUMNS))
def test_columns_may_stand_in_any_order(columns: list[str]) -> None:
    assert read(text_of(GOOD, columns=tuple(columns))) == PLAIN


@pytest.mark.parametrize(
    "change",
    {
        "BOM": lambda data: b"\xef\xbb\xbf" + data,
        "CRLF": lambda data: data.replace(b"\n", b"\r\n"),
        "quotes": lambda data: data.replace(b"pi_a", b'"pi_a"'),
        "another column": lambda data: data.replace(b"created\n", b"created,note\n").replace(b",x\n", b',x,"a\nb,c"\n'),
        "blank lines": lambda data: data + b"\n\r\n",
    }.items(),
    ids=lambda item: item[0],
)
def test_harmless_forms_change_nothing(change: tuple[str, Callable[[bytes], bytes]]) -> None:
    assert read(change[1](text_of(GOOD))) == PLAIN


@each(
    ("field", "value", "reason"),
    [
        ("type", "bonus", "unknown type"),
        ("gross", "10.00", "not an amount"),
        ("gross", "", "not an amount"),
        ("gross", "=1+1", "not an amount"),
        ("gross", "9" * 30, "too large"),
        ("gross", "٣", "not an amount"),
        ("gross", "1e3", "not an amount"),
        ("currency", "XAU", "not a currency"),
        ("line_id", "", "no line_id"),
        ("line_id", '=HYPERLINK("http://x")'.replace('"', ""), "formula"),
        ("line_id", "x" * 300, "too long"),
        ("line_id", "a\x07b", "control"),
        ("reference", "a\x00b", "NUL"),
        ("reference", "a,b", "cells"),
    ],
)
def test_a_line_that_cannot_be_relied_on_is_told_with_its_number(field: str, value: str, reason: str) -> None:
    found = read(text_of(GOOD, GOOD | {field: value}, GOOD))
    assert [type(line) for line in found] == [Line, Defect, Line]
    assert isinstance(found[1], Defect)
    assert found[1].line_no == 3
    assert reason in found[1].reason


def test_bytes_that_are_no_utf_8_are_one_line_s_defect() -> None:
    data = text_of(GOOD, GOOD | {"reference": "REF"}, GOOD).replace(b"REF", b"caf\xe9")
    assert [type(line) for line in read(data)] == [Line, Defect, Line]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"\n", "empty"),
        (text_of(GOOD).decode().encode("utf-16"), "UTF-16"),
        (text_of(GOOD).replace(b"gross", b"brutto"), "gross"),
        (text_of(GOOD).replace(b"report_id", b"line_id"), "line_id"),
        (b'"line_id', "never closed"),
        (b"%PDF-1.7\n\x00\xff", "must name"),
        *((text_of(GOOD).replace(b",", mark), "separated by '(;|.t|.)': save") for mark in (b";", b"\t", b"|")),
    ],
)
def test_a_file_that_is_no_report_is_refused_as_a_whole(data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableReport, match=reason):
        read(data)


def test_every_cut_is_noticed_and_what_stood_before_stands() -> None:
    """Trap: truncated. No cut inside a line makes another amount out of it."""
    whole = text_of(GOOD, GOOD | {"line_id": "ln_2"}, GOOD | {"line_id": "ln_3"})
    header = whole.index(b"\n") + 1
    for end in range(header + 1, len(whole)):
        found = read(whole[:end])
        complete = whole[:end].count(b"\n") - 1
        is_between = whole[:end].endswith(b"\n")
        assert len([line for line in found if isinstance(line, Line)]) == complete
        assert is_between or (isinstance(found[-1], Defect) and found[-1].is_cut_off)


def test_an_open_quote_hides_no_line_that_could_be_read() -> None:
    filler = GOOD | {"created": "y" * 1_000}
    data = text_of(GOOD, GOOD | {"reference": '"oops'}, *([filler] * 200), GOOD)
    found = read(data)
    assert isinstance(found[1], Defect)
    assert found[1].line_no == 3
    assert len(found) == 203
    assert not any(isinstance(line, Defect) for line in found[2:])


class Endless(io.RawIOBase):
    """A file whose one line has so many bytes, made while it is read."""

    def __init__(self, head: bytes, length: int, tail: bytes) -> None:
        self._parts = [head, length, tail]

    def readline(self, size: int | None = -1, /) -> bytes:
        head, length, tail = self._parts
        if head:
            line, self._parts[0] = head[: head.index(b"\n") + 1], head[head.index(b"\n") + 1 :]
            return line
        if length:
            take = min(size or length, length)
            self._parts[1] = length - take
            return b"z" * take
        line, self._parts[2] = (tail[: tail.index(b"\n") + 1], tail[tail.index(b"\n") + 1 :]) if tail else (b"", b"")
        return line


def test_a_line_of_two_gigabytes_takes_no_memory() -> None:
    tracemalloc.start()
    stream = Endless(text_of(GOOD), 2 * 1024**3, b"\n" + text_of(GOOD).partition(b"\n")[2])
    found = list(simulator.read_lines(stream))  # type: ignore[arg-type]  # all that a reader asks of a stream
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [type(line) for line in found] == [Line, Defect, Line]
    assert peak < 20 * payments_limits.SETTLEMENT_LINE_BYTES_MAX


@given(st.binary(max_size=400))
def test_no_bytes_after_a_header_break_the_reader(tail: bytes) -> None:
    found = read(text_of(GOOD) + tail)
    assert found[0] == PLAIN[0]


@given(st.sampled_from(sorted(EXPONENTS)), st.integers(-limits.AMOUNT_MINOR_MAX, limits.AMOUNT_MINOR_MAX))
def test_parse_undoes_format_in_every_currency(code: str, amount: int) -> None:
    assert minor_of_major(format_minor(amount, code), code) == amount


@pytest.mark.parametrize(
    ("text", "code", "amount"),
    [(".11", "USD", 11), ("52", "USD", 5200), ("-0.5", "USD", -50), ("5.", "USD", 500), ("1.234", "KWD", 1234)],
)
def test_decimals_as_real_files_write_them(text: str, code: str, amount: int) -> None:
    assert minor_of_major(text, code) == amount


@each("text", ["1.234", "0.000", "", ".", "-", "1,000.00", "1 000", "1e2", "NaN", "+1", "0x1", "１", "--1"])
def test_amounts_that_are_refused(text: str) -> None:
    with pytest.raises(Unclassifiable):
        minor_of_major(text, "USD")


def sample(name: str, reader: Any) -> list[Line]:
    path = SAMPLES / name
    if not path.exists():
        pytest.skip("the settlement samples are in the shared data folder, which is not here")
    return lines_of(path.read_bytes(), reader)


def test_stripe_s_settlement_report() -> None:
    """Its payout row is above zero and does not foot: 24 less 0 is not 23.05."""
    lines = sample("stripe_settlement_report.csv", stripe_report)
    assert [(line.type, line.gross, line.fee, line.net) for line in lines] == [
        ("charge", 2500, 95, 2405), ("refund", -1000, 0, -1000), ("charge", 1000, 0, 1000), ("fee", -50, 0, -50),
        ("fee", -50, 0, -50), ("payout", 2400, 0, 2305),
    ]  # fmt: skip
    assert {line.batch for line in lines} == {"po_test123"}
    assert sum(line.net for line in lines[:-1]) == lines[-1].net


def test_stripe_s_activity_report_with_its_columns_in_another_order() -> None:
    lines = sample("stripe_payments_activity.csv", stripe_report)
    assert [(line.type, line.gross, line.fee, line.net) for line in lines] == [
        ("charge", 3000, 120, 2880), ("dispute", -3000, 1500, -4500),
        ("payout", -2880, 0, -2880), ("payout", 4500, 0, 4500),
    ]  # fmt: skip
    assert [line.provider_refs for line in lines[2:]] == [("po_abc",), ("po_def",)], "only lines name these payouts"
    assert lines[1].provider_refs == ("dp_bbb", "ch_bbb", "pi_bbb")


@pytest.mark.parametrize(
    ("name", "expected"),
    {
        "chargeback_reversed": [("dispute_reversal", 5200, 11, 5189)],
        "donation": [("charge", 100, 24, 76), ("payout", -76, 0, -76)],
        "invoice_deduction": [("fee", -6, 0, -6), ("fee", 3, 0, 3)],
        "refund": [("refund", -100, 0, -100), ("fee", -180, 0, -180), ("payout", -403, 0, -403)],
    }.items(),
)
def test_adyen_s_reports(name: str, expected: list[tuple[str, int, int, int]]) -> None:
    lines = sample(f"adyen_settlement_detail_report_{name}.csv", adyen)
    assert [(line.type, line.gross, line.fee, line.net) for line in lines] == expected


def test_adyen_s_lines_have_an_identity_of_their_own() -> None:
    names = ("chargeback_reversed", "donation", "invoice_deduction", "refund")
    ids = Counter(
        line.line_id for name in names for line in sample(f"adyen_settlement_detail_report_{name}.csv", adyen)
    )
    assert set(ids.values()) == {1}


def test_a_second_chargeback_is_called_as_its_notification_calls_it() -> None:
    columns = ("Psp Reference,Merchant Reference,Type,Modification Reference,Gross Currency,Gross Debit (GC),"
               "Gross Credit (GC),Net Currency,Net Debit (NC),Net Credit (NC)")  # fmt: skip
    rows = (f"P1,,{kind},DSP1,EUR,10.00,,EUR,10.00," for kind in ("Chargeback", "SecondChargeback"))
    first, second = lines_of("\n".join((columns, *rows, "")).encode(), adyen)
    assert (first.provider_refs, second.provider_refs) == (("DSP1", "P1"), ("DSP1:second", "P1"))


@pytest.mark.parametrize("reader", [stripe_report, adyen])
def test_a_line_of_an_unknown_type_keeps_its_money(reader: Any) -> None:
    name = "stripe_payments_activity.csv" if reader is stripe_report else "adyen_settlement_detail_report_donation.csv"
    path = SAMPLES / name
    if not path.exists():
        pytest.skip("the settlement samples are in the shared data folder, which is not here")
    data = path.read_bytes().replace(b",charge,", b",surprise,", 1).replace(b",Settled,", b",Surprise,", 1)
    found = read(data, reader)
    line = found[0]
    assert isinstance(line, Line)
    assert (line.type, (line.reference or "").lower(), line.net > 0) == ("other", "surprise", True)


STRIPE = ("balance_transaction_id", "source_id", "automatic_payout_id", "currency", "gross", "fee", "net",
          "reporting_category", "customer_facing_amount", "customer_facing_currency")  # fmt: skip


def stripe(*rows: str) -> list[Line | Defect]:
    return read("\n".join((",".join(STRIPE), *rows, "")).encode(), stripe_report)


@pytest.mark.parametrize("reference", ["-4711", "+1", "@shop", "=1+1", "x" * 300])
def test_a_reference_that_some_merchant_chose_withholds_no_payout(reference: str) -> None:
    columns = ("balance_transaction_id,automatic_payout_id,currency,gross,fee,net,reporting_category,card_brand,"
               "payment_metadata[reference]")  # fmt: skip
    rows = (f"txn_1,po_1,usd,5.00,0,5.00,charge,{reference},{reference}", "txn_2,po_1,usd,1.00,0,1.00,charge,visa,pi_a")
    found = lines_of("\n".join((columns, *rows, "")).encode(), stripe_report)
    assert [(line.type, line.net, line.reference) for line in found] == [
        ("charge", 500, None), ("charge", 100, "pi_a"), ("payout", -600, "po_1")
    ]  # fmt: skip


def test_kronas_are_read_as_stripe_writes_them() -> None:
    """With two decimals, which their currency has not; an amount that needs them is a defect."""
    columns = "balance_transaction_id,currency,gross,fee,net,reporting_category"
    rows = (
        "txn_1,isk,100.00,5.00,95.00,charge",
        "txn_2,isk,100.50,0,100.50,charge",
        "txn_3,jpy,100.00,0,100.00,charge",
    )
    line, *defects = read("\n".join((columns, *rows, "")).encode(), stripe_report)
    assert isinstance(line, Line)
    assert (line.gross, line.fee, line.net) == (100, 5, 95)
    assert all(isinstance(one, Defect) for one in defects)


def test_what_stripe_settles_in_another_currency_tells_both() -> None:
    charge, refund, fee, same, *_ = stripe(
        "txn_1,ch_1,po_1,usd,11.00,0.62,10.38,charge,10.00,eur",
        "txn_2,re_1,po_1,usd,-5.50,0,-5.50,refund,5.00,eur",
        "txn_3,,po_1,usd,-0.10,0,-0.10,fee,,",
        "txn_4,ch_2,po_1,usd,3.00,0,3.00,charge,3.00,usd",
    )
    assert all(isinstance(line, Line) for line in (charge, refund, fee, same))
    told = [(line.gross, line.currency, line.fee, line.net, line.net_currency) for line in (charge, refund, fee, same)]  # type: ignore[union-attr]
    assert told == [(1_000, "EUR", 62, 1_038, "USD"), (-500, "EUR", 0, -550, "USD"),
                    (-10, "USD", 0, -10, "USD"), (300, "USD", 0, 300, "USD")]  # fmt: skip


def test_a_payout_without_a_line_of_its_own_is_the_sum_of_those_that_name_it() -> None:
    lines = ["txn_1,ch_1,po_1,usd,11.00,1.00,10.00,charge,,", "txn_2,ch_2,po_2,usd,5.00,0,5.00,charge,,"]
    told = [line for line in stripe(*lines, "txn_3,po_2,po_2,usd,-5.00,0,-5.00,payout,,") if isinstance(line, Line)]
    assert [(line.line_id, line.type, line.net) for line in told[2:]] == [
        ("txn_3", "payout", -500), ("po_1:USD", "payout", -1_000)
    ]  # fmt: skip
    broken = stripe(*lines, "txn_3,ch_3,po_1,usd,many,0,5.00,charge,,")
    assert not any(line.type == "payout" for line in broken if isinstance(line, Line)), "a line of it may be missing"


@pytest.mark.parametrize(
    ("category", "kind"),
    [("partial_capture_reversal", "capture_reversal"), ("tax", "fee"), ("topup", "adjustment"),
     ("charge_failure", "adjustment"), ("payout_reversal", "payout_reversal"), ("never heard of", "other")],
)  # fmt: skip
def test_stripe_s_categories(category: str, kind: str) -> None:
    (line,) = stripe(f"txn_1,ch_1,,usd,-1.00,0,-1.00,{category},,")
    assert isinstance(line, Line)
    assert (line.type, line.net) == (kind, -100)


@pytest.mark.parametrize(
    ("fees", "fee"),
    [
        ("0.10,0.05,0.20,0.15,", 50),
        ("0.10,0.05,0.20,0.15,0.50", 50),
        (",,,,0.50", 50),
        ("0,0,0,0,0.50", 50),
        (",,,,", 0),
    ],
)
def test_adyen_s_fees_count_once(fees: str, fee: int) -> None:
    """A report has the parts, their sum (Payment Fees), or both."""
    names = (*adyen._REQUIRED, *adyen._FEES, adyen._FEES_WHOLE)
    row = f"psp,pi_1,Settled,mod,EUR,,10.00,EUR,,9.50,{fees}"
    (line,) = lines_of(f"{','.join(names)}\n{row}\n".encode(), adyen)
    assert line.fee == fee


@pytest.mark.parametrize(
    ("name", "kind"),
    [("MiscCosts", "fee"), ("PaymentCost", "fee"), ("ReserveAdjustment", "adjustment"), ("SettledReversed", "capture_reversal"),
     ("BankInstructionReturned", "payout_reversal"), ("Unheard", "other")],
)  # fmt: skip
def test_adyen_s_types(name: str, kind: str) -> None:
    row = f"psp,pi_1,{name},mod,EUR,1.00,,EUR,1.00,"
    (line,) = lines_of(f"{','.join(adyen._REQUIRED)}\n{row}\n".encode(), adyen)
    assert (line.type, line.net) == (kind, -100)
