"""One bank statement as it is read: its entries, its balances, and what of it can be relied on.

What is wrong with an entry is a finding of that entry, and the others stand. A statement gives nothing only where it
says of itself what cannot be so: balances and entries contradict each other, or nobody can tell whose account it is of.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from reconciliation.payments.settlement.line import Unclassifiable
from reconciliation.payments.settlement.reports.amounts import currency_code, minor_of_major
from reconciliation.payments.settlement.reports.camt053_entry import (
    Part,
    batch_size,
    content_of,
    contradiction_of,
    names_of,
    other_side_of,
    parts_of,
    text_of,
)
from schemas.payments import limits

if TYPE_CHECKING:
    from reconciliation.payments.settlement.reports.camt053_entry import Node

_OPENING: Final = ("OPBD", "PRCD")
_CLOSING: Final = "CLBD"


class Entry(Struct, kw_only=True):
    """One booked movement on the account; above zero came in."""

    statement: str
    number: int
    amount: int
    currency: str
    names: tuple[str, ...]  # every reference that the bank or the sender gave it, and the words of its remittance text
    booked_on: str | None
    is_reversal: bool
    content: str  # digest of all that it says, and which of the equal ones of its statement it is
    parts: tuple[Part, ...] = ()  # of a batch: the payments that it is of, when the bank tells them
    batch_size: int | None = None  # of a batch of which the bank tells nothing else
    contradiction: str | None = None  # its details say another sum than it does: told, and never matched
    text: str = ""  # what a person wrote on it, for rules
    parties: tuple[str, ...] = ()  # names of the other side
    ibans: tuple[str, ...] = ()  # accounts of the other side


class UnreadEntry(Struct, frozen=True, kw_only=True):
    """An entry of which not even the amount can be relied on."""

    statement: str
    number: int
    content: str
    reason: str


class Statement(Struct, kw_only=True):
    """What a statement says of itself. ``refusals``: why nothing of it is taken; ``doubts``: what is told beside it."""

    id: str
    account: str
    currency: str | None
    opening: int | None
    closing: int | None
    total: int
    entries: int
    unread: int = 0
    refusals: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    @property
    def gap(self) -> int:
        """How far the closing balance is from the opening one plus all entries; 0 when that cannot be said."""
        if self.opening is None or self.closing is None or self.unread:
            return 0
        return self.closing - self.opening - self.total


class Footing:
    """One statement under way: sums, no entries."""

    def __init__(self) -> None:
        self._statement = Statement(id="", account="", currency=None, opening=None, closing=None, total=0, entries=0)
        self._balance_currencies: set[str] = set()
        self._contents: Counter[str] = Counter()

    def take(self, node: Node) -> Entry | UnreadEntry | None:
        """A part of the statement; an entry when it is a booked one."""
        statement = self._statement
        try:
            match node.name:
                case "Id":
                    statement.id = _name_of(node.text, blank="_")
                case "Acct":
                    statement.account = _name_of(node.word("Id/IBAN", "Id/Othr/Id") or "", blank="")
                    self._account_currency(node.word("Ccy"))
                case "Bal":
                    self._balance(node)
                case "Ntry" if node.word("Sts/Cd", "Sts") in (None, "BOOK"):  # others moved nothing yet
                    statement.entries += 1
                    return self._entry(node, statement.entries)
                case "Ntry":
                    statement.entries += 1
        except Unclassifiable as problem:
            self._tell(statement.refusals if node.name != "Bal" else statement.doubts, f"{node.name}: {problem}")
        return None

    def ended(self) -> Statement:
        """The statement with everything that is wrong with it."""
        statement = self._statement
        if not statement.id or not statement.account:
            self._tell(statement.refusals, "it has no id or no account")
        if len(self._balance_currencies) > 1:
            told = ", ".join(sorted(self._balance_currencies))
            self._tell(statement.refusals, f"its balances are in several currencies: {told}")
        elif statement.gap:
            self._tell(statement.refusals, "opening balance and entries do not make the closing balance")
        elif statement.opening is None or statement.closing is None:
            self._tell(statement.doubts, "it has no opening or no closing balance")
        if statement.unread:
            self._tell(statement.doubts, f"{statement.unread} entries cannot be read: nobody can say whether it foots")
        return statement

    def _tell(self, findings: list[str], text: str) -> None:
        if len(findings) < limits.SETTLEMENT_FINDINGS_MAX:
            findings.append(text)

    def _account_currency(self, told: str | None) -> None:
        if told is not None:
            self._statement.currency = currency_code(told)

    def _balance(self, node: Node) -> None:
        code = node.word("Tp/CdOrPrtry/Cd")
        if code not in (*_OPENING, _CLOSING):
            return
        amount, currency = _signed(node, None)
        self._balance_currencies.add(currency)
        self._statement.currency = self._statement.currency or currency
        if code == _CLOSING:
            self._statement.closing = amount
        else:
            self._statement.opening = amount

    def _entry(self, node: Node, number: int) -> Entry | UnreadEntry:
        statement = self._statement
        content = content_of(node, statement.id)
        self._contents[content] += 1
        content = f"{content}~{self._contents[content]}"
        try:
            amount, currency = _signed(node, statement.currency)
        except Unclassifiable as problem:
            statement.unread += 1
            return UnreadEntry(statement=statement.id, number=number, content=content, reason=str(problem))
        statement.currency = currency
        statement.total += amount
        booked = node.at("BookgDt")
        contradiction = contradiction_of(node)
        parties, ibans = other_side_of(node)
        return Entry(
            statement=statement.id,
            number=number,
            amount=amount,
            currency=currency,
            names=names_of(node),
            booked_on=booked.word("Dt", "DtTm") if booked else None,
            is_reversal=node.word("RvslInd") in ("true", "1"),
            content=content,
            parts=() if contradiction else parts_of(node, is_debit=amount < 0),
            batch_size=batch_size(node),
            contradiction=contradiction,
            text=text_of(node),
            parties=parties,
            ibans=ibans,
        )


def _signed(node: Node, account_currency: str | None) -> tuple[int, str]:
    money = node.at("Amt")
    if money is None:
        raise Unclassifiable("has no amount")
    code = currency_code(money.ccy or "")
    if code != (account_currency or code):
        raise Unclassifiable(f"is in {code}, and the account in {account_currency}")
    amount = minor_of_major(money.text, code, are_zeros_allowed=True)
    if amount < 0:  # is a debit of -3.00 one, or none? The standard has no such amount
        raise Unclassifiable(f"is {money.text.strip()[:30]}: whether money came or went is not for its sign to say")
    match node.word("CdtDbtInd"):
        case "CRDT":
            return amount, code
        case "DBIT":
            return -amount, code
        case other:
            raise Unclassifiable(f"is neither credit nor debit: {str(other)[:10]!r}")


def _name_of(text: str, *, blank: str) -> str:
    name = blank.join(text.split())
    if len(name) > limits.SETTLEMENT_NAME_LENGTH_MAX or not name.isprintable():
        raise Unclassifiable("has a name that is too long or holds control characters")
    return name
