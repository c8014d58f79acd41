"""What moves the balance, as balance transactions, and the itemized report of payouts over all of them."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Final

from compose.stripe_simulator.problems import Refused

if TYPE_CHECKING:
    from compose.stripe_simulator.book import Transaction
    from compose.stripe_simulator.problems import Object

_COLUMNS: Final = (
    "balance_transaction_id", "created_utc", "currency", "gross", "fee", "net", "reporting_category", "source_id",
    "charge_id", "payment_intent_id", "automatic_payout_id", "payment_method_type", "card_brand",
    "payment_metadata[operation_id]", "payment_metadata[reference]",
)  # fmt: skip
_REPORT: Final = "payout_reconciliation.itemized."
_ALL: Final = 10**6
#: 2.9 % and 30 cents, as Stripe's page of prices has it for cards
_FEE_PER_MILLE, _FEE_FIXED = 29, 30


def fee_of(amount: int) -> int:
    """The fee of a charge."""
    return (amount * _FEE_PER_MILLE + 500) // 1_000 + _FEE_FIXED


def book_line(made: Transaction, category: str, source: str, of: Object, amount: int, fee: int = 0) -> Object:
    """One movement of the balance, signed; ``of`` is the payment, whose metadata of this moment the line keeps."""
    line = {
        "id": made.new_id("txn"), "object": "balance_transaction", "amount": amount, "fee": fee, "net": amount - fee,
        "currency": of["currency"], "created": made.now, "reporting_category": category, "source": source,
        "payment_intent": of["id"], "payment_metadata": of["metadata"], "automatic_payout": None,
    }  # fmt: skip
    return made.keep(line)


def pay_out(made: Transaction) -> Object:
    """Everything that was not paid out yet, in one payout for each currency; the payouts."""
    lines, _ = made.listed("balance_transaction", None, _ALL)
    unpaid = [line for line in reversed(lines) if line["automatic_payout"] is None]
    payouts = []
    for currency in sorted({line["currency"] for line in unpaid}):
        own = [line for line in unpaid if line["currency"] == currency]
        total = sum(line["net"] for line in own)
        payout = {"id": made.new_id("po"), "object": "payout", "amount": total, "currency": currency, "status": "paid"}
        payouts.append(made.keep(payout))
        for line in own:
            made.keep(line | {"automatic_payout": payout["id"]})
        paid = book_line(made, "payout", str(payout["id"]), {"id": "", "metadata": {}, "currency": currency}, -total)
        made.keep(paid | {"automatic_payout": payout["id"]})
    return {"object": "list", "data": payouts}


def run_report(made: Transaction, report_type: str) -> Object:
    """POST /v1/reporting/report_runs: done at once. Raises Refused."""
    if not report_type.startswith(_REPORT):
        raise Refused("parameter_invalid_string", f"There is no report {report_type} here.")
    file = made.keep({"id": made.new_id("file"), "object": "file", "text": report(made)})
    run = {
        "id": made.new_id("frr"),
        "object": "reporting.report_run",
        "status": "succeeded",
        "report_type": report_type,
    }
    return made.keep(run | {"result": {"id": file["id"], "object": "file", "url": f"/v1/files/{file['id']}/contents"}})


def report(made: Transaction) -> str:
    """Every line that stands in a payout, oldest first, in decimals of major units."""
    written = io.StringIO()
    rows = csv.writer(written, lineterminator="\n")
    rows.writerow(_COLUMNS)
    for line in reversed(made.listed("balance_transaction", None, _ALL)[0]):
        if line["automatic_payout"] is None:
            continue
        metadata, source = line["payment_metadata"], line["source"]
        money = (f"{line[name] / 100:.2f}" for name in ("amount", "fee", "net"))
        charge = source if source.startswith("ch_") else ""
        rows.writerow(
            (
                line["id"], line["created"], line["currency"], *money, line["reporting_category"], source, charge,
                line["payment_intent"], line["automatic_payout"], "card", "visa",
                metadata.get("operation_id", ""), metadata.get("reference", ""),
            )
        )  # fmt: skip
    return written.getvalue()
