"""Cards given by their number: what is kept of one is its network and its last four digits, and how it behaves.

The number ends in ``kept_as``: nothing behind it, neither the book nor a log nor an error, ever holds it.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

#: A caller's token holds no blank, so nobody can ask for a kept card by its name.
_KEPT: Final = "card {network} {last4} {verdict}"
_DECLINED_LAST4: Final = "0002"  # as of 4000 0000 0000 0002, the number that processors' test modes decline
_NETWORKS: Final = (
    ("visa", 4, 4),
    ("mastercard", 51, 55),
    ("mastercard", 2221, 2720),
    ("amex", 34, 34),
    ("amex", 37, 37),
    ("discover", 6011, 6011),
    ("discover", 65, 65),
    ("jcb", 3528, 3589),
)


class Card(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A card as a caller gives it. Its text form tells nothing."""

    number: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{12,19}\Z")]
    exp_month: Annotated[int, msgspec.Meta(ge=1, le=12)]
    exp_year: Annotated[int, msgspec.Meta(ge=2000, le=2199)]
    cvc: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{3,4}\Z")] | None = None

    def __repr__(self) -> str:
        return f"Card({network_of(self.number)} {self.number[-4:]})"


def is_card_number(number: str) -> bool:
    """Whether the digits satisfy Luhn's check."""
    doubled = (int(digit) * (1 + position % 2) for position, digit in enumerate(reversed(number)))
    return sum(value // 10 + value % 10 for value in doubled) % 10 == 0


def network_of(number: str) -> str:
    """The network that a number belongs to by its first digits."""
    for network, first, last in _NETWORKS:
        if first <= int(number[: len(str(first))]) <= last:
            return network
    return "unknown"


def kept_as(card: Card) -> str:
    """The name under which the book knows a card: without its number, and enough to behave alike for ever."""
    verdict = "declines" if card.number.endswith(_DECLINED_LAST4) else "approves"
    return _KEPT.format(network=network_of(card.number), last4=card.number[-4:], verdict=verdict)


def approves(token: str) -> bool | None:
    """Whether a kept card pays; None when the token is no kept card."""
    if not token.startswith("card "):
        return None
    return token.endswith(" approves")
