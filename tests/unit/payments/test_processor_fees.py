"""Fees by contract: of the contracts that speak of a line the first counts, and reports suggest what was agreed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciliation.payments.settlement.contracts import plain_bps, priced, proposed
from reconciliation.payments.settlement.line import Line
from schemas import errors
from schemas.payments.policies import kinds, processor_fees
from schemas.payments.policies.processor_fees import Contract


def line(gross: int, fee: int, scheme: str | None = "visa", tier: str | None = "credit", **given: Any) -> Line:
    kind: Any = "charge" if gross > 0 else "refund"
    told = {"currency": "EUR", "net_currency": "EUR", "net": gross - fee, "created": "2026-03-01 10:00:00"} | given
    return Line(line_no=1, line_id="txn", type=kind, operation_id=None, reference=None, provider_refs=(), gross=gross,
                fee=fee, scheme=scheme, tier=tier, **told)  # fmt: skip


def fees(contracts: list[dict[str, Any]], *lines: Line) -> list[int | None]:
    body = kinds.canonical("processor_fees", {"contracts": contracts}, ())
    return [
        found.contract_fee for found in priced(processor_fees.read(body).contracts, lines) if isinstance(found, Line)
    ]


def test_the_first_contract_that_speaks_of_a_line_counts() -> None:
    contracts = [
        {"processor": "stripe", "scheme": "visa", "tier": "debit", "bps": 20, "fixed": {"EUR": 5}},
        {"processor": "stripe", "scheme": "visa", "bps": 150, "fixed": {"EUR": 25}, "last_day": "2026-03-01"},
        {"processor": "stripe", "scheme": "visa", "bps": 200, "first_day": "2026-03-02", "refund_fixed": {"EUR": 10}},
    ]
    assert fees(contracts, line(10_000, 1, "Visa", "debit"), line(10_000, 1), line(333, 1)) == [25, 175, 30]
    later = {"created": "2026-03-02"}
    assert fees(contracts, line(10_000, 1, **later), line(-10_000, 0, **later)) == [200, 10]
    assert fees(contracts, line(10_000, 7, "amex"), line(10_000, 7, None, None)) == [None, None], "nobody says"
    paid = line(9_000, 100, currency="USD", net=9_900)
    assert fees(contracts, paid) == [175], "of what came of it in the currency of its settlement"


def test_what_rounding_makes_is_no_difference() -> None:
    contract = {"processor": "stripe", "bps": 150, "tolerance_minor": 1}
    assert fees([contract], line(1_000, 14), line(1_000, 16), line(1_000, 17)) == [14, 16, 15]


def test_only_a_contract_of_every_line_alike_is_plain() -> None:
    plain, asking = Contract(processor="p", bps=60), Contract(processor="p", bps=60, currency="EUR")
    assert [plain_bps([plain]), plain_bps([asking]), plain_bps([]), plain_bps([plain, plain])] == [60, None, None, None]


@pytest.mark.parametrize(
    ("contract", "field"),
    [({"currency": "XAU"}, "currency"), ({"fixed": {"XXY": 1}}, "fixed.XXY"), ({"last_day": "2026-01-01"}, "last_day")],
)
def test_a_document_that_cannot_be_so_is_refused(contract: dict[str, Any], field: str) -> None:
    made = {"processor": "stripe", "bps": 1, "first_day": "2026-01-02"} | contract
    with pytest.raises(errors.InvalidCommand) as refused:
        kinds.canonical("processor_fees", {"contracts": [made]}, ())
    assert [fault["field"] for fault in refused.value.errors] == [f"contracts[0].{field}"]


@given(
    st.integers(0, 400),
    st.integers(0, 50),
    st.lists(st.integers(2_000, 500_000), min_size=8, max_size=40, unique=True),
)
def test_a_proposal_finds_the_contract_that_a_report_was_made_by(bps: int, fixed: int, amounts: list[int]) -> None:
    contract = Contract(processor="stripe", bps=bps, fixed={"EUR": fixed})
    lines = [line(amount, contract.fee_minor(amount, "EUR")) for amount in amounts]
    (found,) = proposed("stripe", [*lines, line(-500, 0)])
    assert found["lines"] == len(amounts)
    document = kinds.canonical("processor_fees", {"contracts": [found["contract"]]}, ())
    (read,) = processor_fees.read(document).contracts
    if max(amounts) - min(amounts) > 100_000 and len(amounts) > 20:
        assert abs(read.bps - bps) <= 1
        assert abs(read.fixed.get("EUR", 0) - fixed) <= 25
