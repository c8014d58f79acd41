"""The ledger as a beancount file: accounts opened, one transaction for each of ours, and the balances asserted.

The assertions come from ``account_balance``, the transactions from the lines: beancount adds up the lines by its own
code, so its silence proves that both are the same. Amounts are integers up to the last step, and never floats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reconciliation.payments.export.accounts import beancount_account
from schemas.fields.currency import format_minor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reconciliation.payments.export.ledger import Line, Txn

HEAD: Final = ';; Written by "millrace export": the whole ledger at one moment. Debits are above zero.\n'
_ESCAPES: Final = str.maketrans(
    {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\f": "\\f", "\b": "\\b"}
)


def opening(account_id: str, currency: str, day: str) -> str:
    """The account exists from this day on."""
    name = beancount_account(account_id, currency)
    return f"{day} open {name} {currency}\n  account: {quoted(account_id)}\n"


def transaction(txn: Txn, lines: Iterable[Line]) -> str:
    """One transaction with what identifies it."""
    head = [
        f"\n{txn.day} * {quoted(txn.kind)}",
        f'  txn_id: "{txn.txn_id}"',
        f"  reference: {quoted(txn.reference)}",
        f"  kind: {quoted(txn.kind)}",
        f"  aggregate: {quoted(txn.aggregate)}",
    ]
    postings = [
        f"  {beancount_account(line.account_id, line.currency)}  "
        f"{format_minor(line.amount, line.currency)} {line.currency}"
        for line in lines
    ]
    return "\n".join([*head, *postings, ""])


def assertion(account_id: str, currency: str, balance_minor: int, day: str) -> str:
    """What the account must hold at the beginning of this day, to the last unit: beancount alone would forgive one."""
    name = beancount_account(account_id, currency)
    return f"{day} balance {name}  {format_minor(balance_minor, currency)} ~ 0 {currency}\n"


def quoted(text: str) -> str:
    """A string of beancount."""
    return f'"{text.translate(_ESCAPES)}"'
