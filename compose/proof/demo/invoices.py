"""Invoices from a CSV file, plain or gzipped. Credit notes, and those of 0, are no payments: counted and left out.

The columns are those of the Online Retail data: invoice_no, invoice_date, customer_id, country, total_minor_gbp, lines.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TextIO

from compose.proof import limits as proof_limits
from compose.stack.errors import StackError
from schemas import limits

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

COLUMNS: Final = ("invoice_no", "invoice_date", "customer_id", "country", "total_minor_gbp", "lines")
CREDIT_NOTE_MARK: Final = "C"
_GZIP_MAGIC: Final = b"\x1f\x8b"


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoice:
    """One invoice to be paid; the total is in pence and above zero."""

    number: str
    date: str
    customer: str
    country: str
    total_minor_gbp: int
    lines: int


@dataclass(frozen=True, slots=True)
class Invoices:
    """What a file held: invoices in its order, and how many credit notes and invoices of nothing were left out."""

    payable: list[Invoice]
    credit_notes: int
    of_nothing: int = 0


def read_invoices(path: Path) -> Invoices:
    """The invoices of a file. Raises ``StackError`` that names the line when the file is not one of invoices."""
    try:
        with path.open("rb") as file:
            is_gzip = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        with _open_text(path, is_gzip=is_gzip) as text:
            return parse_invoices(text, path.name)
    except OSError as error:
        raise StackError(
            f"cannot read {path}: {error.strerror or error}; give --orders a CSV file of invoices"
        ) from error
    except (EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise StackError(f"{path} is damaged ({error}); give --orders a CSV file of invoices") from error


def parse_invoices(rows: Iterable[str], name: str) -> Invoices:
    """The invoices of CSV text with a header line. Raises ``StackError``; ``name`` says where in its message."""
    reader = csv.DictReader(rows, strict=True)
    missing = [column for column in COLUMNS if column not in (reader.fieldnames or ())]
    if missing:
        raise StackError(f"{name} has no column {', '.join(missing)}; the first line must name {','.join(COLUMNS)}")
    payable: list[Invoice] = []
    seen: set[str] = set()
    credit_notes = of_nothing = 0
    for row in reader:
        where = f"{name}, line {reader.line_num}"
        invoice = _invoice(row, where)
        if invoice.number.upper().startswith(CREDIT_NOTE_MARK) or invoice.total_minor_gbp < 0:
            credit_notes += 1
            continue
        if invoice.total_minor_gbp == 0:
            of_nothing += 1
            continue
        _refuse_unpayable(invoice, seen, where)
        if len(payable) == proof_limits.DEMO_INVOICES_MAX:
            raise StackError(f"{name} has more than {proof_limits.DEMO_INVOICES_MAX} invoices: split it")
        seen.add(invoice.number)
        payable.append(invoice)
    if not payable:
        raise StackError(
            f"{name} has no invoice that can be paid: it holds {credit_notes} credit notes and {of_nothing} of nothing"
        )
    return Invoices(payable, credit_notes, of_nothing)


def _open_text(path: Path, *, is_gzip: bool) -> TextIO:
    if is_gzip:
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def _invoice(row: dict[str, str | None], where: str) -> Invoice:
    values = {column: (row[column] or "").strip() for column in COLUMNS}
    if not values["invoice_no"]:
        raise StackError(f"{where}: invoice_no is empty")
    return Invoice(
        number=values["invoice_no"],
        date=values["invoice_date"],
        customer=values["customer_id"],
        country=values["country"],
        total_minor_gbp=_integer(values["total_minor_gbp"], "total_minor_gbp", where),
        lines=_integer(values["lines"], "lines", where),
    )


def _integer(text: str, column: str, where: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise StackError(f"{where}: {column} is {text[:40]!r}, not a whole number") from None


def _refuse_unpayable(invoice: Invoice, seen: set[str], where: str) -> None:
    if invoice.total_minor_gbp > limits.AMOUNT_MINOR_MAX:
        raise StackError(f"{where}: total_minor_gbp is past {limits.AMOUNT_MINOR_MAX}")
    if len(invoice.number) > limits.METADATA_VALUE_LENGTH_MAX:
        raise StackError(f"{where}: invoice_no is longer than {limits.METADATA_VALUE_LENGTH_MAX} characters")
    if invoice.number in seen:
        # The number is the retry identity: paid twice, it would be the same payment.
        raise StackError(f"{where}: invoice {invoice.number} is in the file twice")
