"""Adyen's settlement details report: debits and credits in two columns each, gross and net in two currencies.

Adyen gives a line no identity. Ours is made of what names it (type, both psp references, batch, the text of a line
without a reference); the second line of the same name in one file gets a number, so that a file has the same identities
whenever it is read. Batches are counted by each merchant account, and so is what has no psp reference: with the account
they are told apart. What they were called before is told too (``earlier``), for files that were taken in then.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, BinaryIO, Final

from reconciliation.payments.settlement.line import Defect, Line, LineType, Unclassifiable
from reconciliation.payments.settlement.reports.amounts import currency_code, minor_of_major
from reconciliation.payments.settlement.reports.csv_rows import CsvRows, identity_of, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_REQUIRED: Final = (
    "Psp Reference",
    "Merchant Reference",
    "Type",
    "Modification Reference",
    "Gross Currency",
    "Gross Debit (GC)",
    "Gross Credit (GC)",
    "Net Currency",
    "Net Debit (NC)",
    "Net Credit (NC)",
)
#: the sum of the others, or of none of them: a report has one or both
_FEES_WHOLE: Final = "Payment Fees (NC)"
_FEES: Final = ("Commission (NC)", "Markup (NC)", "Scheme Fees (NC)", "Interchange (NC)")
_TYPES: Final[dict[str, LineType]] = {
    "Settled": "charge",
    "SettledInInstallments": "charge",
    "SettledReversed": "capture_reversal",
    "Refunded": "refund",
    "RefundedInInstallments": "refund",
    "RefundedReversed": "refund_reversal",
    "Chargeback": "dispute",
    "SecondChargeback": "dispute",
    "ChargebackReversed": "dispute_reversal",
    "MerchantPayout": "payout",
    "BankInstructionReturned": "payout_reversal",
    **dict.fromkeys(
        ("Fee", "InvoiceDeduction", "PaymentCost", "MiscCosts", "RefundCost", "ChargebackCost", "TerminalSale"), "fee"
    ),
    **dict.fromkeys(
        ("Balancetransfer", "DepositCorrection", "ManualCorrected", "MatchedStatement", "MerchantPayin",
         "ReserveAdjustment", "InternalCompanyPayout", "AdvancementCommissions", "CashManagementFinancing"),
        "adjustment",
    ),
}  # fmt: skip
_NAMELESS: Final = frozenset(
    {"payout", "payout_reversal", "fee", "adjustment", "other"}
)  # the modification reference is a text there


def read_lines(stream: BinaryIO) -> Iterator[Line | Defect]:
    """Every line of the report, in order. Raises UnreadableReport."""
    rows = CsvRows(stream, _REQUIRED)
    for row in rows:
        if isinstance(row, Defect):
            yield row
            continue
        number, cells = row
        try:
            yield _line(number, _Cells(cells, rows.columns))
        except Unclassifiable as problem:
            yield Defect(number, str(problem))


class _Cells:
    """One row by name."""

    def __init__(self, cells: list[str], columns: dict[str, int]) -> None:
        self._cells = cells
        self._columns = columns

    def text(self, name: str) -> str:
        place = self._columns.get(name)
        return "" if place is None else self._cells[place].strip()

    def amount(self, name: str, code: str) -> int:
        return minor_of_major(self.text(name) or "0", code)

    def credit_less_debit(self, kind: str, suffix: str, code: str) -> int:
        return self.amount(f"{kind} Credit ({suffix})", code) - self.amount(f"{kind} Debit ({suffix})", code)


def _line(number: int, cells: _Cells) -> Line:
    name = cells.text("Type")
    kind = _TYPES.get(name, "other")
    net_code = currency_code(cells.text("Net Currency"))
    net = cells.credit_less_debit("Net", "NC", net_code)
    if kind in _NAMELESS:
        code, gross, fee = net_code, net, 0  # such a line has no gross of its own
    else:
        code = currency_code(cells.text("Gross Currency"))
        gross = cells.credit_less_debit("Gross", "GC", code)
        parts = [cells.amount(fee, net_code) for fee in _FEES]
        fee = sum(parts) if any(parts) else cells.amount(_FEES_WHOLE, net_code)
    psp, modification = identity_of(cells.text("Psp Reference")), cells.text("Modification Reference") or None
    if kind not in _NAMELESS:
        identity_of(modification or "")
    batch, account = identity_of(cells.text("Batch Number")), identity_of(cells.text("Merchant Account"))
    earlier_id = _identity(name, psp, modification, batch)
    line_id = _identity(name, psp, modification, batch, account) if account and not psp else earlier_id
    own = f"{modification}:second" if name == "SecondChargeback" else modification  # as its notification calls it
    refs = () if kind in _NAMELESS else tuple(dict.fromkeys(ref for ref in (own, psp) if ref))
    reference = name_of(cells.text("Merchant Reference")) or (
        name_of(modification or "") if kind in _NAMELESS else None
    )
    return Line(
        line_no=number,
        line_id=line_id,
        type=kind,
        operation_id=name_of(cells.text("Modification Merchant Reference")) if kind == "refund" else None,
        reference=identity_of(name) if kind == "other" else reference,
        provider_refs=refs,
        currency=code,
        gross=gross,
        fee=fee,
        net=net,
        net_currency=net_code,
        batch=f"{account}/{batch}" if account and batch else batch,
        created=cells.text("Creation Date") or None,
        scheme=cells.text("Payment Method") or None,
        tier=cells.text("Payment Method Variant") or None,
        earlier_id=earlier_id if earlier_id != line_id else None,
        earlier_batch=batch if account else None,
    )


def _identity(name: str, *parts: str | None) -> str:
    digest = hashlib.sha256("\x1f".join(part or "" for part in parts).encode()).hexdigest()
    return f"{name}:{digest[:32]}"
