"""Decimal texts of reports to minor units and back, exactly: digits are moved, never rounded, and never floats."""

from __future__ import annotations

import re
from typing import Final

from reconciliation.payments.settlement.line import Unclassifiable
from schemas import limits
from schemas.fields.currency import EXPONENTS

_DECIMAL: Final = re.compile(r"(-?)(\d*)(?:\.(\d*))?\Z", re.ASCII)
#: an integer of so many digits is no larger than any amount may be
SURELY_WITHIN_DIGITS: Final = len(str(limits.AMOUNT_MINOR_MAX)) - 1
_INTEGER: Final = re.compile(r"-?\d{1,16}\Z", re.ASCII)


def currency_code(text: str) -> str:
    """The ISO 4217 code, whatever its case. Raises Unclassifiable."""
    code = text.strip().upper()
    if code not in EXPONENTS:
        raise Unclassifiable(f"{text[:20]!r} is not a currency with a minor unit")
    return code


def minor_of_major(text: str, code: str, *, are_zeros_allowed: bool = False) -> int:
    """Minor units of a decimal of major units: ``("-.5", "USD")`` is -50. Raises Unclassifiable.

    More decimals than the currency has are refused, even zeros: whoever wrote them meant another currency or unit.
    Banks write five decimals by their standard: zeros too many are allowed there.
    """
    found = _DECIMAL.match(text.strip())
    if found is None or not (found[2] or found[3]):
        raise Unclassifiable(f"{text[:30]!r} is not a decimal amount")
    sign, whole, rest = found[1], found[2] or "", found[3] or ""
    exponent = EXPONENTS[code]
    if are_zeros_allowed and len(rest) > exponent:
        rest = rest[:exponent] + rest[exponent:].rstrip("0")
    if len(rest) > exponent:
        raise Unclassifiable(f"{text[:30]!r} has more decimals than {code} has")
    return _within(f"{sign}{whole}{rest.ljust(exponent, '0')}" if whole or rest else "0")


def minor_units(text: str) -> int:
    """An integer of minor units as it stands. Raises Unclassifiable."""
    return _within(text.strip())


def _within(digits: str) -> int:
    if len(digits) <= SURELY_WITHIN_DIGITS and digits.isdigit() and digits.isascii():
        return int(digits)  # nearly all of a long report
    if not _INTEGER.match(digits):
        raise Unclassifiable(f"{digits[:30]!r} is not an amount in minor units, or too large")
    value = int(digits)
    if abs(value) > limits.AMOUNT_MINOR_MAX:
        raise Unclassifiable(f"{digits} is larger than any amount can be")
    return value
