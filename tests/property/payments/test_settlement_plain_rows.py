"""A line that goes to the stage ready made is the row of the line that the careful reader makes of the same bytes."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciliation.payments.settlement.line import Defect
from reconciliation.payments.settlement.reports.simulator import COLUMNS, read_lines, read_rows
from reconciliation.payments.settlement.stage import stage_row
from schemas import limits

PLAIN = {
    "line_id": "ln_1",
    "report_id": "rpt_1",
    "type": "charge",
    "operation_id": "op_a_1",
    "reference": "pi_a",
    "provider_ref": "sim_a",
    "currency": "USD",
    "gross": "1000",
    "fee": "6",
    "net": "994",
    "created": "1790000000.123",
}
ALL = [*COLUMNS, "note"]
#: forms between plain and refused; the reader that is quick must see in each what the careful one sees
CELLS = (
    "", " ", "x", " x ", "a b", "a\\b", 'a"b', '"a,b"', '"a\nb"', "a\tb", "a\rb", "a\x00b", "a{b}", "é", "٣", "\x85",
    "=1", "-1", "+1", "@a", "0", "-0", "00", "007", "1.0", "9" * 15, "9" * 16, "9" * 17, "-" + "9" * 15, "1_000",
    str(limits.AMOUNT_MINOR_MAX), str(limits.AMOUNT_MINOR_MAX + 1), "x" * 200, "x" * 201, "usd", "XAU", "JPY", "refund",
    "refund_reversal", "refund_", "payout", "bonus", "op_a_b_2", "op__1", "op_a_", "op_a_01", "op_a_1x", "op_1",
    "op_a_999999999", "op_a_1000000000", "op_" + "a" * 150 + "_1", "op_" + "a" * 195 + "_1", "op_a.b_1", "op_a_b_",
)  # fmt: skip
TEXTS = st.text(st.characters(max_codepoint=0x2FF, categories=("L", "N", "P", "S", "Z", "C")), max_size=8)


def assert_both_readers_agree(changes: dict[str, str], columns: list[str], end: str = "\n") -> None:
    row = {"note": "n"} | PLAIN | changes
    data = (",".join(columns) + "\n" + 2 * (",".join(row[name] for name in columns) + end)).encode("utf-8", "replace")
    careful = [line if isinstance(line, Defect) else stage_row(line) for line in read_lines(io.BytesIO(data))]
    quick = [line if isinstance(line, bytes | Defect) else stage_row(line) for line in read_rows(io.BytesIO(data))]
    assert quick == careful, row


@given(
    st.dictionaries(st.sampled_from(ALL), st.sampled_from(CELLS) | TEXTS, max_size=3),
    st.permutations(ALL),
    st.sampled_from(("\n", "\r\n", "\r\r\n", "\n\n", "")),
)
def test_a_plain_row_is_the_row_of_its_line(changes: dict[str, str], columns: list[str], end: str) -> None:
    assert_both_readers_agree(changes, columns, end)


@pytest.mark.parametrize("name", ALL)
def test_every_form_in_every_column_is_the_same_for_both(name: str) -> None:
    for cell in CELLS:
        assert_both_readers_agree({name: cell}, ALL)


def test_a_plain_line_is_not_read_the_careful_way() -> None:
    data = (",".join(COLUMNS) + "\n" + ",".join(PLAIN[name] for name in COLUMNS) + "\n").encode()
    assert list(read_rows(io.BytesIO(data))) == [
        b'2\tln_1\tcharge\top_a_1\tpi_a\t1\tpi_a\t{"sim_a"}\tUSD\t1000\t6\t994\tUSD\t\\N\t1790000000.123\t\\N\t\\N\t\\N\n'
    ]
