"""The ledger as an hledger journal: all is declared, so that ``hledger check --strict`` is the witness.

The accounts are those of the beancount file. Free text stands in comments, one for each field, on one line whatever is
in it; hledger reads no amount and no account there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reconciliation.payments.export.accounts import beancount_account
from schemas.fields.currency import EXPONENTS, format_minor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reconciliation.payments.export.ledger import Line, Txn

HEAD: Final = '; Written by "millrace export": the whole ledger at one moment. Debits are above zero.\n'


def opening(account_id: str, currency: str, day: str) -> str:  # noqa: ARG001 - hledger's accounts have no first day
    """The account and the commodity exist; declared again, a commodity is the same."""
    name = beancount_account(account_id, currency)
    commodity = f"commodity 1.{'0' * EXPONENTS[currency]} {currency}"
    return f"account {name}  ; account: {_on_one_line(account_id)}\n{commodity}\n"


def transaction(txn: Txn, lines: Iterable[Line]) -> str:
    """One transaction with what identifies it."""
    said = {"txn_id": str(txn.txn_id), "reference": txn.reference, "kind": txn.kind, "aggregate": txn.aggregate}
    head = [f"\n{txn.day} *", *(f"    ; {name}: {_on_one_line(text)}" for name, text in said.items())]
    postings = [
        f"    {beancount_account(line.account_id, line.currency)}  "
        f"{format_minor(line.amount, line.currency)} {line.currency}"
        for line in lines
    ]
    return "\n".join([*head, *postings, ""])


def assertion(account_id: str, currency: str, balance_minor: int, day: str) -> str:
    """What the account must hold at the beginning of this day, and nothing of another commodity."""
    name = beancount_account(account_id, currency)
    return f"\n{day} * balance\n    {name}  0 {currency} == {format_minor(balance_minor, currency)} {currency}\n"


def _on_one_line(text: str) -> str:
    """The text with everything that could end a line, or is no character to print, written as an escape."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
