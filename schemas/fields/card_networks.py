"""The networks of cards (ISO/IEC 7812): where their numbers begin, how many digits they have, their check digit."""

from __future__ import annotations

from typing import Final, NamedTuple

DIGITS_MIN: Final = 13  # shorter ones are no card of today's networks, and every other order number would be one
DIGITS_MAX: Final = 19


class Range(NamedTuple):
    """Where the numbers of a network begin, and how many digits they have."""

    network: str
    first: int  # prefixes from first to last, both of the same number of digits
    last: int
    lengths: frozenset[int]


def _lengths(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


_SIXTEEN_UP: Final = frozenset(range(16, 20))
#: The first row that fits decides (ISO/IEC 7812 issuer ranges as the networks publish them).
_RANGES: Final = (
    Range("visa", 4, 4, _lengths(13, 16, 19)),
    Range("mastercard", 51, 55, _lengths(16)),
    Range("mastercard", 2221, 2720, _lengths(16)),
    Range("amex", 34, 34, _lengths(15)),
    Range("amex", 37, 37, _lengths(15)),
    Range("diners", 300, 305, _lengths(14, 16, 17, 18, 19)),
    Range("diners", 3095, 3095, _lengths(14, 16, 17, 18, 19)),
    Range("diners", 36, 36, frozenset(range(14, 20))),
    Range("diners", 38, 39, _lengths(14, 16, 17, 18, 19)),
    Range("jcb", 3528, 3589, _SIXTEEN_UP),
    Range("discover", 6011, 6011, _SIXTEEN_UP),
    Range("discover", 644, 649, _SIXTEEN_UP),
    Range("discover", 65, 65, _SIXTEEN_UP),
    Range("unionpay", 62, 62, _SIXTEEN_UP),
    Range("unionpay", 8100, 8171, _SIXTEEN_UP),
    Range("maestro", 50, 50, frozenset(range(12, 20))),
    Range("maestro", 56, 58, frozenset(range(12, 20))),
    Range("maestro", 6, 6, frozenset(range(12, 20))),
)
ANY_LENGTH: Final = frozenset(range(12, 20))
UNKNOWN: Final = Range("unknown", 0, 0, ANY_LENGTH)
NETWORKS: Final = (*dict.fromkeys(row.network for row in _RANGES), UNKNOWN.network)


def passes_luhn(digits: str) -> bool:
    """Whether the last digit is the check digit of those before it (ISO/IEC 7812-1, annex B)."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 if value > 9 else value  # noqa: PLR2004 - the sum of its two digits
    return total % 10 == 0


def network_of(digits: str) -> str:
    """The network whose range the number begins in; ``unknown`` when it begins in none."""
    return range_of(digits).network


def range_of(digits: str) -> Range:
    """The range that the number begins in; the one of the network ``unknown`` when it begins in none."""
    for row in _RANGES:
        size = len(str(row.first))
        if len(digits) >= size and row.first <= int(digits[:size]) <= row.last:
            return row
    return UNKNOWN


def is_card_number(digits: str) -> bool:
    """Whether the digits are a number that a known network gives to a card."""
    if not DIGITS_MIN <= len(digits) <= DIGITS_MAX:
        return False
    row = range_of(digits)
    return row is not UNKNOWN and len(digits) in row.lengths and passes_luhn(digits)
