"""Reading invoices: every good row once, every bad file a line that says where and what."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from compose.proof.demo.invoice_generator import generated_invoices
from compose.proof.demo.invoices import COLUMNS, Invoice, parse_invoices, read_invoices
from compose.stack.errors import StackError
from schemas import limits
from tests.each import each

if TYPE_CHECKING:
    from pathlib import Path

HEADER = ",".join(COLUMNS)
ROWS = [
    HEADER,
    "536365,1/12/2010,17850,United Kingdom,13912,7",
    "C536379,1/12/2010,14527,United Kingdom,-2750,1",
    '536370,1/12/2010,12583,"Korea, Republic of",85586,20',
    "536371,1/12/2010,13748,United Kingdom,-20400,1",
]


def test_credit_notes_are_counted_and_left_out():
    """By the mark on the number as by a negative total."""
    found = parse_invoices(ROWS, "f")
    assert [invoice.number for invoice in found.payable] == ["536365", "536370"]
    assert found.credit_notes == 2


def test_invoices_of_nothing_are_counted_and_left_out():
    """A real shop has them; nothing is to pay, and the others are paid."""
    found = parse_invoices([*ROWS, "536400,1/12/2010,17850,United Kingdom,0,1"], "f")
    assert ([invoice.number for invoice in found.payable], found.of_nothing) == (["536365", "536370"], 1)


def test_every_column_is_read():
    assert parse_invoices(ROWS, "f").payable[1] == Invoice(
        number="536370",
        date="1/12/2010",
        customer="12583",
        country="Korea, Republic of",
        total_minor_gbp=85_586,
        lines=20,
    )


def test_columns_may_stand_in_any_order():
    names = list(reversed(COLUMNS))
    row = dict(zip(COLUMNS, ["1", "d", "c", "UK", "5", "1"], strict=True))
    found = parse_invoices([",".join(names), ",".join(row[name] for name in names)], "f")
    assert (found.payable[0].number, found.payable[0].total_minor_gbp) == ("1", 5)


@pytest.mark.parametrize("name", ["orders.csv", "orders.csv.gz", "orders.of.another.name"])
def test_a_gzipped_file_is_known_by_its_content(tmp_path: Path, name: str):
    text = ("\n".join(ROWS) + "\n").encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if name != "orders.csv" else text)
    assert len(read_invoices(path).payable) == 2


@each(
    ("rows", "says"),
    [
        (["a,b", "1,2"], "f has no column invoice_no"),
        ([], "f has no column"),
        ([HEADER], "no invoice that can be paid"),
        ([HEADER, "C1,d,c,UK,-5,1"], "it holds 1 credit notes"),
        ([HEADER, "1,d,c,UK,12.50,1"], "line 2: total_minor_gbp is '12.50'"),
        ([HEADER, "1,d,c,UK,5,one"], "line 2: lines is 'one'"),
        ([HEADER, "1,d,c,UK,5,1", "1,d,c,UK,5,1"], "line 3: invoice 1 is in the file twice"),
        ([HEADER, "1,d,c,UK,0,1"], "it holds 0 credit notes and 1 of nothing"),
        ([HEADER, ",d,c,UK,5,1"], "line 2: invoice_no is empty"),
        ([HEADER, f"1,d,c,UK,{limits.AMOUNT_MINOR_MAX + 1},1"], "is past"),
        ([HEADER, "1"], "total_minor_gbp is ''"),
    ],
)
def test_a_bad_row_is_named(rows: list[str], says: str):
    with pytest.raises(StackError) as raised:
        parse_invoices(rows, "f")
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path):
    with pytest.raises(StackError, match=r"cannot read .*No such file"):
        read_invoices(tmp_path / "missing.csv")
    damaged = tmp_path / "damaged.csv.gz"
    damaged.write_bytes(gzip.compress(("\n".join(ROWS)).encode())[:-12])
    with pytest.raises(StackError, match="is damaged"):
        read_invoices(damaged)
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StackError, match="is damaged"):
        read_invoices(binary)


def test_generated_invoices_have_the_shape_of_real_ones():
    """The same seed, the same rows; credit notes between them; numbers rise."""
    first, again = generated_invoices(250), generated_invoices(250)
    assert first == again
    assert len(first.payable) == 250
    assert 10 <= first.credit_notes <= 45
    numbers = [int(invoice.number) for invoice in first.payable]
    assert numbers == sorted(set(numbers))
    totals = sorted(invoice.total_minor_gbp for invoice in first.payable)
    assert 10_000 < totals[125] < 40_000
    assert totals[-1] > 10 * totals[125]
    assert generated_invoices(250, seed=1) != first
