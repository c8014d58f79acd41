"""The bank's statements about the payouts as camt.053: one entry is off, one is nobody's, and one balance is a lie."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from reconciliation.payments.settlement.sources import GivenFile
from schemas.fields.currency import format_minor

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from compose.proof.soak.payments.accounts import MadePayout
    from compose.proof.soak.payments.settlements import Books, Payout

_ACCOUNT = "NL00SOAK"
_NOT_FOOTING = 5  # minor units that a closing balance is off
_STRANGER = 1_234


def write_statements(folder: Path, books: Books, merchants: Iterable[MadePayout] = ()) -> list[GivenFile]:
    """A statement per currency of everything that was paid out, and one that does not foot.

    What has to be found in them is added to what was planted: the first payout of the first currency arrives with one
    minor unit less, and money comes that nobody announced. What went to merchants' banks has a statement of its own.
    """
    by_currency: dict[str, list[Payout]] = {}
    for payout in books.payouts.values():
        by_currency.setdefault(payout.currency, []).append(payout)
    files = []
    for number, (currency, payouts) in enumerate(by_currency.items()):
        entries = [(payout.name, payout.amount) for payout in payouts]
        if number == 0:
            first = payouts[0]
            entries[0] = (first.name, first.amount - 1)
            entries.append(("soak-stranger", _STRANGER))
            books.planted.append(("bank_difference", first.line_id, 1, currency))
            books.planted.append(("bank_unmatched", f"bank:{_ACCOUNT}/soak-{currency}", _STRANGER, currency))
        files.append(_write(folder, f"soak-{currency}", currency, entries, 0))
    for currency, entries in sorted(_to_merchants(merchants, books).items()):
        files.append(_write(folder, f"soak-merchants-{currency}", currency, entries, 0))
    files.append(_write(folder, "soak-lies", "EUR", [("soak-lie", _STRANGER)], _NOT_FOOTING))
    books.planted.append(("statement_does_not_foot", "soak-lies", _NOT_FOOTING, "EUR"))
    return files


def _to_merchants(payouts: Iterable[MadePayout], books: Books) -> dict[str, list[tuple[str, int]]]:
    """By currency what the bank booked of payouts: left, left and came back, or left with one minor unit too much."""
    booked: dict[str, list[tuple[str, int]]] = {}
    for payout in payouts:
        entries = booked.setdefault(payout.currency, [])
        if payout.end == "off":
            entries.append((payout.id, -payout.amount - 1))
            books.planted.append(("bank_difference", payout.id, 1, payout.currency))
        elif payout.end in ("paid", "returned", "told_paid"):
            entries.append((payout.id, -payout.amount))
            entries += [(payout.id, payout.amount)] if payout.end == "returned" else []
    return {currency: entries for currency, entries in booked.items() if entries}


def _write(folder: Path, statement: str, currency: str, entries: list[tuple[str, int]], off: int) -> GivenFile:
    path = folder / f"{statement}.xml"
    closing = sum(amount for _, amount in entries) + off
    path.write_text(
        '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt><Stmt>'
        f"<Id>{escape(statement)}</Id><Acct><Id><IBAN>{_ACCOUNT}</IBAN></Id></Acct>"
        + _balance("OPBD", 0, currency)
        + _balance("CLBD", closing, currency)
        + "".join(_entry(name, amount, currency) for name, amount in entries)
        + "</Stmt></BkToCstmrStmt></Document>",
        encoding="utf-8",
    )
    return GivenFile(path=path, format="camt053", processor=None)


def _balance(kind: str, amount: int, currency: str) -> str:
    return f"<Bal><Tp><CdOrPrtry><Cd>{kind}</Cd></CdOrPrtry></Tp>{_money(amount, currency)}</Bal>"


def _entry(name: str, amount: int, currency: str) -> str:
    reference = f"<NtryDtls><TxDtls><Refs><EndToEndId>{escape(name)}</EndToEndId></Refs></TxDtls></NtryDtls>"
    return f"<Ntry>{_money(amount, currency)}<Sts><Cd>BOOK</Cd></Sts>{reference}</Ntry>"


def _money(amount: int, currency: str) -> str:
    side = "CRDT" if amount >= 0 else "DBIT"
    return f'<Amt Ccy="{currency}">{format_minor(abs(amount), currency)}</Amt><CdtDbtInd>{side}</CdtDbtInd>'
