"""What happens to each payment of the demo: its card, its captures, its disturbances, and how it must end. Pure data.

Everything goes by the place of the invoice in its file, in cycles of lengths without a common divisor: so every kind of
story meets every disturbance, a small file sees most kinds, and the same file is the same demo.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal

from schemas import limits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from compose.proof.demo.invoices import Invoice

Ending = Literal["succeeded", "canceled", "requires_payment_method"]

MERCHANTS: Final = ("m_demo_north", "m_demo_south", "m_demo_east", "m_demo_west")
WHOLE: Final = 100  # percent


class Disturbance(Enum):
    """What a careless network or caller does to every command of a payment."""

    NONE = "none"
    DUPLICATED = "duplicated"  # the same command again after its answer
    CONCURRENT = "concurrent"  # the same command several times at once
    RETRIED = "retried"  # hung up before the answer, then the same identity again
    RESUMED = "resumed"  # answered 202, then found out through /v1/operations
    STALE = "stale"  # first with an expected_version that is not the current one
    REUSED = "reused"  # then the same key with another request


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of story. Captures are percentages of the amount; the last one is final."""

    card: str = "tok_sim_approve"  # of the processor simulator
    captures: tuple[int, ...] = ()  # none: automatic capture
    cancel: Literal["", "before_confirm", "after_authorize"] = ""
    second_card: str = ""  # tried after a decline

    @property
    def is_manual(self) -> bool:
        """Whether the merchant captures by himself."""
        return bool(self.captures) or self.cancel == "after_authorize"


_PLAIN: Final = Kind()
_KINDS: Final = (
    _PLAIN,
    Kind(captures=(WHOLE,)),
    _PLAIN,
    Kind(card="tok_sim_decline"),
    Kind(captures=(60, 40)),
    Kind(card="tok_sim_slow"),
    _PLAIN,
    Kind(cancel="before_confirm"),
    Kind(card="tok_sim_timeout_after_commit"),
    _PLAIN,
    Kind(captures=(70,)),
    Kind(card="tok_sim_decline", second_card="tok_sim_approve"),
    Kind(card="tok_sim_error_before_commit"),
    _PLAIN,
    Kind(cancel="after_authorize"),
    Kind(card="tok_sim_error_after_commit"),
    _PLAIN,
    Kind(captures=(50, 30, 10)),
    _PLAIN,
    Kind(captures=(WHOLE,)),
)
_CALM: Final = (Disturbance.NONE,)
#: the calm ones first, then one by one: seven of thirteen payments are left in peace
_DISTURBANCES: Final = _CALM * 7 + tuple(kind for kind in Disturbance if kind not in _CALM)
_CURRENCIES: Final = ("GBP", "GBP", "JPY", "GBP", "GBP", "BHD", "GBP", "GBP", "CLF", "GBP", "GBP")
_BULK_CYCLE: Final = 9  # every ninth payment comes through POST /v1/commands
#: minor units for 100 pence: round numbers for illustration, exact integers, exponents 2, 0, 3 and 4
_MINOR_PER_POUND: Final = {"GBP": 100, "JPY": 190, "BHD": 480, "CLF": 250}


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One payment from its invoice to its end."""

    invoice: Invoice
    merchant: str
    amount: int
    currency: str
    kind: Kind
    disturbance: Disturbance
    is_bulk: bool

    @property
    def captures(self) -> tuple[int, ...]:
        """The amounts that the merchant captures, in order; none for automatic capture and cancellations."""
        amounts: list[int] = []
        for share in self.kind.captures:
            left = self.amount - sum(amounts)
            amounts.append(min(left, max(1, self.amount * share // WHOLE)))
        if sum(self.kind.captures) == WHOLE and amounts:
            amounts[-1] = self.amount - sum(amounts[:-1])  # the last one takes what rounding left
        return tuple(amount for amount in amounts if amount > 0)

    @property
    def ending(self) -> Ending:
        """The state in which the payment must end."""
        if self.kind.cancel:
            return "canceled"
        is_declined = self.kind.card == "tok_sim_decline" and not self.kind.second_card
        return "requires_payment_method" if is_declined else "succeeded"

    @property
    def received(self) -> int:
        """The amount that must have been received in the end."""
        if self.ending != "succeeded":
            return 0
        return sum(self.captures) if self.kind.is_manual else self.amount


def stories_of(invoices: Iterable[Invoice]) -> list[Story]:
    """The stories of invoices, in their order."""
    return [_story(place, invoice) for place, invoice in enumerate(invoices)]


def _story(place: int, invoice: Invoice) -> Story:
    currency = _CURRENCIES[place % len(_CURRENCIES)]
    amount = max(1, invoice.total_minor_gbp * _MINOR_PER_POUND[currency] // _MINOR_PER_POUND["GBP"])
    if amount > limits.AMOUNT_MINOR_MAX:
        currency, amount = "GBP", invoice.total_minor_gbp
    return Story(
        invoice=invoice,
        merchant=MERCHANTS[zlib.crc32(invoice.customer.encode()) % len(MERCHANTS)],
        amount=amount,
        currency=currency,
        kind=_KINDS[place % len(_KINDS)],
        disturbance=_DISTURBANCES[place % len(_DISTURBANCES)],
        is_bulk=place % _BULK_CYCLE == _BULK_CYCLE - 1,
    )
