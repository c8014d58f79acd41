"""An entry of camt.053: its elements, what it is called by, and the payments that a batch is booked of."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from reconciliation.payments.settlement.line import Unclassifiable
from reconciliation.payments.settlement.reports.amounts import currency_code, minor_of_major
from schemas.payments import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_DETAILS: Final = "NtryDtls/TxDtls"
_OF_ENTRY: Final = ("AcctSvcrRef", "NtryRef")
_OF_PAYMENT: Final = (
    "Refs/EndToEndId",
    "Refs/AcctSvcrRef",
    "Refs/InstrId",
    "Refs/TxId",
    "RmtInf/Strd/CdtrRefInf/Ref",
    "RmtInf/Ustrd",
)
_SIDES: Final = ("Dbtr", "Cdtr", "UltmtDbtr", "UltmtCdtr")
#: what a bank writes where it has no reference
_NO_NAME: Final = "notprovided"
_CONTENT_CHARACTERS: Final = 40  # of the digest, 160 bits
#: the digits of a number of payments; more would be no number of ours
_COUNT_DIGITS_MAX: Final = 6


class Part(Struct, frozen=True, kw_only=True):
    """One payment of a batch, signed as its entry; None where the bank does not tell its amount."""

    amount: int | None
    names: tuple[str, ...]


class Node:
    """An element inside a statement."""

    __slots__ = ("ccy", "children", "name", "text")

    def __init__(self, name: str, ccy: str | None) -> None:
        self.name = name
        self.ccy = ccy
        self.text = ""
        self.children: list[Node] = []

    def at(self, path: str) -> Node | None:
        """The first element at a path such as ``Tp/CdOrPrtry/Cd``."""
        return next(self.all(path), None)

    def all(self, path: str) -> Iterator[Node]:
        """Every element at a path."""
        name, _, rest = path.partition("/")
        for child in self.children:
            if child.name == name:
                yield from child.all(rest) if rest else (child,)

    def feed(self, update: Callable[[bytes], None]) -> None:
        """Gives out all that the element says, whatever the case of its words."""
        update(f"<{self.name}\x1f{self.ccy or ''}\x1f{self.text.strip().casefold()}".encode())
        for child in self.children:
            child.feed(update)
        update(b">")

    def word(self, *paths: str) -> str | None:
        """The text of the first of the paths that has one."""
        for path in paths:
            if (found := self.at(path)) is not None and found.text.strip():
                return found.text.strip()
        return None


def names_of(node: Node) -> tuple[str, ...]:
    """Every reference of an entry, and the words of its texts."""
    paths = (*_OF_ENTRY, *(f"{_DETAILS}/{path}" for path in _OF_PAYMENT), "AddtlNtryInf")
    return _words(node, paths)


def parts_of(node: Node, *, is_debit: bool) -> tuple[Part, ...]:
    """The payments of an entry that is several; () of one that is a single one, or too many to be looked at."""
    details = list(node.all(_DETAILS))
    own = node.at("Amt")
    if own is None or not 1 < len(details) <= limits.SETTLEMENT_PARTS_MAX:
        return ()
    return tuple(
        Part(amount=_amount_in(detail, own.ccy, is_debit=is_debit), names=_words(detail, _OF_PAYMENT))
        for detail in details
    )


def contradiction_of(node: Node) -> str | None:
    """What is wrong with an entry whose details all tell their amount, in its currency, and do not make it.

    Charges that the bank took of the entry may lie between them, or be told of each detail.
    """
    own, parts = node.at("Amt"), list(node.all(_DETAILS))
    if own is None or own.ccy is None:
        return None
    try:
        told = [_amount_in(part, own.ccy, is_debit=False) for part in parts]
        amounts = [amount for amount in told if amount is not None]
        gap = sum(amounts) - minor_of_major(own.text, currency_code(own.ccy), are_zeros_allowed=True)
        is_even = not amounts or len(amounts) < len(parts) or abs(gap) in (0, _charges(node, own.ccy))
    except Unclassifiable as problem:
        return f"a detail {problem}"
    return None if is_even else "its details do not make its amount"


def text_of(node: Node) -> str:
    """What stands on an entry in words."""
    paths = (f"{_DETAILS}/RmtInf/Ustrd", f"{_DETAILS}/AddtlTxInf", "AddtlNtryInf")
    text = " ".join(found.text.strip() for path in paths for found in node.all(path))
    return text[: limits.SETTLEMENT_TEXT_LENGTH_MAX]


def other_side_of(node: Node) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and accounts that the details tell, of either side: ours is among them at some banks."""
    parties = f"{_DETAILS}/RltdPties"
    names = [f"{parties}/{side}/{name}" for side in _SIDES for name in ("Nm", "Pty/Nm")]
    accounts = [f"{parties}/{side}Acct/Id/IBAN" for side in _SIDES]
    return (
        _texts(node, names, " "),
        _texts(node, accounts, ""),
    )


def batch_size(node: Node) -> int | None:
    """Of a batch without details: how many payments the bank says that it is of."""
    if node.at(_DETAILS) is not None:
        return None
    count = node.word("NtryDtls/Btch/NbOfTxs") or ""
    return int(count) if count.isascii() and count.isdigit() and len(count) <= _COUNT_DIGITS_MAX else None


def content_of(node: Node, statement: str) -> str:
    """What an entry is, as a digest of all that it says: equal for the same entry in whatever statement it comes again.

    It is that of one statement, and of its number there, unless the bank gave it a name of its own.
    """
    own = (node.word("AcctSvcrRef") or "").casefold()
    digest = hashlib.sha256(f"{own}\x1f".encode() if own and own != _NO_NAME else f"\x1f{statement}\x1f".encode())
    for child in node.children:
        if child.name != "NtryRef" or own in ("", _NO_NAME):  # a number in the statement, where the entry has a name
            child.feed(digest.update)
    return digest.hexdigest()[:_CONTENT_CHARACTERS]


def _amount_in(detail: Node, currency: str | None, *, is_debit: bool) -> int | None:
    """What a detail is of in the currency of its entry; None where the bank tells none, or another currency's only."""
    told = (detail.at("Amt"), detail.at("AmtDtls/TxAmt/Amt"))
    money = next((amount for amount in told if amount is not None and amount.ccy == currency), None)
    if money is None:
        return None
    amount = minor_of_major(money.text, currency_code(money.ccy or ""), are_zeros_allowed=True)
    return -amount if is_debit else amount


def _charges(node: Node, currency: str) -> int:
    """What the bank kept of an entry by itself, told of the entry or of its details."""
    records = [
        found
        for place in ("Chrgs", f"{_DETAILS}/Chrgs")
        for path in (f"{place}/Rcrd/Amt", f"{place}/Amt")
        for found in node.all(path)
    ]
    code = currency_code(currency)
    return sum(minor_of_major(found.text, code, are_zeros_allowed=True) for found in records if found.ccy == currency)


def _texts(node: Node, paths: Iterable[str], blank: str) -> tuple[str, ...]:
    texts = (blank.join(found.text.split()) for path in paths for found in node.all(path))
    return tuple(dict.fromkeys(text for text in texts if text))[: limits.SETTLEMENT_NAMES_MAX]


def _words(node: Node, paths: tuple[str, ...]) -> tuple[str, ...]:
    texts = [found.text.strip() for path in paths for found in node.all(path)]
    words = dict.fromkeys(
        name for text in texts for name in (text, *text.split()) if name and name.casefold() != _NO_NAME
    )
    usable = [w for w in words if len(w) <= limits.SETTLEMENT_NAME_LENGTH_MAX and w.isprintable()]
    return tuple(usable[: limits.SETTLEMENT_NAMES_MAX])
