"""Stripe's itemized payout reconciliation report: decimals of major units, columns by name.

Source: the documented columns and reporting categories of balance_change_from_activity and payout_reconciliation. A
category that is not in the table below is of no kind that we know, and its money waits in suspense. A line of a payment
in another currency than that of its settlement tells both: what the customer paid, and what came of it. A report that
names the payouts of its lines and holds no line of a payout itself is the word of that payout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Final

from reconciliation.payments.settlement.line import ATTEMPT_KINDS, Defect, Line, LineType, Unclassifiable
from reconciliation.payments.settlement.reports.amounts import currency_code, minor_of_major
from reconciliation.payments.settlement.reports.csv_rows import CsvRows, identity_of, name_of
from schemas.fields.currency import EXPONENTS
from schemas.payments.processor_currency import exponent

if TYPE_CHECKING:
    from collections.abc import Iterator

_REQUIRED: Final = ("balance_transaction_id", "currency", "gross", "fee", "net", "reporting_category")
_TYPES: Final[dict[str, LineType]] = {
    "charge": "charge",
    "partial_capture_reversal": "capture_reversal",
    "refund": "refund",
    "refund_failure": "refund_reversal",
    "dispute": "dispute",
    "dispute_reversal": "dispute_reversal",
    "payout": "payout",
    "payout_reversal": "payout_reversal",
    **dict.fromkeys(("fee", "network_cost", "tax", "contribution", "climate_order_purchase"), "fee"),
    **dict.fromkeys(
        (
            "advance", "advance_funding", "anticipation_repayment", "charge_failure", "climate_order_refund",
            "connect_collection_transfer", "connect_reserved_funds", "financing_paydown",
            "financing_paydown_reversal", "financing_payout", "financing_payout_reversal",
            "issuing_authorization_hold", "issuing_authorization_release", "issuing_disbursement", "issuing_dispute",
            "issuing_transaction", "other_adjustment", "payout_minimum_balance_hold",
            "payout_minimum_balance_release", "platform_earning", "platform_earning_refund", "risk_reserved_funds",
            "topup", "topup_reversal", "transfer", "transfer_reversal", "unreconciled_customer_funds",
        ),
        "adjustment",
    ),
}  # fmt: skip
#: our own names, as an adapter writes them into the metadata of what it makes
_OPERATION: Final = "payment_metadata[operation_id]"
_REFERENCES: Final = ("payment_metadata[reference]", "payment_metadata[external_identifier]")
_PROVIDER_REFS: Final = ("source_id", "charge_id", "payment_intent_id")


def read_lines(stream: BinaryIO) -> Iterator[Line | Defect]:
    """Every line of the report, in order, then the payouts that only their lines name. Raises UnreadableReport."""
    rows = CsvRows(stream, _REQUIRED)
    sums: dict[tuple[str, str], int] = {}  # by payout and currency
    told: set[str] = set()
    is_sound = True
    number = 0
    for row in rows:
        if isinstance(row, Defect):
            is_sound = False
            yield row
            continue
        number, cells = row
        try:
            line = _line(number, cells, rows.columns)
        except Unclassifiable as problem:
            is_sound = False
            yield Defect(number, str(problem))
            continue
        if line.type in ("payout", "payout_reversal"):
            told.update((*line.provider_refs, line.batch or ""))
        elif line.batch is not None:
            batch = (line.batch, line.net_currency)
            sums[batch] = sums.get(batch, 0) + line.net
        yield line
    if is_sound:  # else a line of a payout may be missing here
        yield from _implied_payouts(number, {batch: net for batch, net in sums.items() if batch[0] not in told})


def _implied_payouts(last_line_no: int, sums: dict[tuple[str, str], int]) -> Iterator[Line]:
    for number, ((batch, code), net) in enumerate(sums.items(), last_line_no + 1):
        yield Line(
            line_no=number,
            line_id=f"{batch}:{code}",
            type="payout",
            operation_id=None,
            reference=batch,
            provider_refs=(batch,),
            currency=code,
            gross=-net,
            fee=0,
            net=-net,
            net_currency=code,
            batch=batch,
        )


def _line(number: int, cells: list[str], columns: dict[str, int]) -> Line:
    def named(*names: str) -> list[str]:
        found = (name_of(cells[columns[name]]) for name in names if name in columns)
        return [name for name in found if name]

    category = cells[columns["reporting_category"]].strip()
    kind = _TYPES.get(category, "other")
    line_id = identity_of(cells[columns["balance_transaction_id"]])
    if line_id is None:
        raise Unclassifiable("has no balance_transaction_id")
    code = currency_code(cells[columns["currency"]])
    has_zeros = exponent("stripe", code) > EXPONENTS[code]
    gross, fee, net = (
        minor_of_major(cells[columns[name]] or "0", code, are_zeros_allowed=has_zeros)
        for name in ("gross", "fee", "net")
    )
    paid = _customer_facing(cells, columns) if kind in ATTEMPT_KINDS else None
    created = columns.get("created", columns.get("created_utc"))
    reference = name_of(category) if kind == "other" else next(iter(named(*_REFERENCES)), None)
    return Line(
        line_no=number,
        line_id=line_id,
        type=kind,
        operation_id=next(iter(named(_OPERATION)), None),
        reference=reference,
        provider_refs=tuple(dict.fromkeys(named(*_PROVIDER_REFS))),
        currency=paid[1] if paid else code,
        gross=abs(paid[0]) * (1 if gross >= 0 else -1) if paid else gross,
        fee=fee,
        net=net,
        net_currency=code,
        batch=identity_of(cells[columns["automatic_payout_id"]]) if "automatic_payout_id" in columns else None,
        created=cells[created] if created is not None else None,
        scheme=next(iter(named("card_brand", "payment_method_type")), None),
        tier=next(iter(named("card_funding")), None),
    )


def _customer_facing(cells: list[str], columns: dict[str, int]) -> tuple[int, str] | None:
    """What the customer paid or got back, where that is told."""
    amount, code = (columns.get(f"customer_facing_{name}") for name in ("amount", "currency"))
    if amount is None or code is None or not cells[amount].strip() or not cells[code].strip():
        return None
    currency = currency_code(cells[code])
    return minor_of_major(cells[amount], currency), currency
