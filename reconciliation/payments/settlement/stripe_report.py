"""Stripe's itemized payout reconciliation report: decimals of major units, columns by name.

Source: the documented columns of balance_change_from_activity and payout_reconciliation. A reporting category that is
not in the table below is told, not guessed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Final

from reconciliation.payments.settlement.amounts import currency_code, minor_of_major
from reconciliation.payments.settlement.csv_rows import CsvRows, identity_of
from reconciliation.payments.settlement.line import Defect, Line, LineType, Unclassifiable

if TYPE_CHECKING:
    from collections.abc import Iterator

_REQUIRED: Final = ("balance_transaction_id", "currency", "gross", "fee", "net", "reporting_category")
_TYPES: Final[dict[str, LineType]] = {
    "charge": "charge",
    "refund": "refund",
    "refund_failure": "refund_reversal",
    "dispute": "dispute",
    "dispute_reversal": "dispute_reversal",
    "payout": "payout",
    "payout_reversal": "payout_reversal",
    "fee": "fee",
    "network_cost": "fee",
    "other_adjustment": "adjustment",
    "risk_reserved_funds": "adjustment",
}
#: our own names, as an adapter writes them into the metadata of what it makes
_OPERATION: Final = "payment_metadata[operation_id]"
_REFERENCES: Final = ("payment_metadata[reference]", "payment_metadata[external_identifier]")
_PROVIDER_REFS: Final = ("source_id", "charge_id", "payment_intent_id")


def read_lines(stream: BinaryIO) -> Iterator[Line | Defect]:
    """Every line of the report, in order. Raises UnreadableReport."""
    rows = CsvRows(stream, _REQUIRED)
    for row in rows:
        if isinstance(row, Defect):
            yield row
            continue
        number, cells = row
        try:
            yield _line(number, cells, rows.columns)
        except Unclassifiable as problem:
            yield Defect(number, str(problem))


def _line(number: int, cells: list[str], columns: dict[str, int]) -> Line:
    def named(*names: str) -> list[str]:
        found = (identity_of(cells[columns[name]]) for name in names if name in columns)
        return [name for name in found if name]

    category = cells[columns["reporting_category"]].strip()
    kind = _TYPES.get(category)
    if kind is None:
        raise Unclassifiable(f"has the unknown reporting_category {category[:40]!r}")
    line_id = identity_of(cells[columns["balance_transaction_id"]])
    if line_id is None:
        raise Unclassifiable("has no balance_transaction_id")
    code = currency_code(cells[columns["currency"]])
    gross, fee, net = (minor_of_major(cells[columns[name]] or "0", code) for name in ("gross", "fee", "net"))
    created = columns.get("created", columns.get("created_utc"))
    return Line(
        line_no=number,
        line_id=line_id,
        type=kind,
        operation_id=next(iter(named(_OPERATION)), None),
        reference=next(iter(named(*_REFERENCES)), None),
        provider_refs=tuple(dict.fromkeys(named(*_PROVIDER_REFS))),
        currency=code,
        gross=gross,
        fee=fee,
        net=net,
        net_currency=code,
        batch=next(iter(named("automatic_payout_id")), None),
        created=cells[created] if created is not None else None,
    )
