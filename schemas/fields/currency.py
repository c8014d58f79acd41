"""ISO 4217 currencies that money can be held in, with their exponents (0, 2, 3 or 4), from the library iso4217."""

from __future__ import annotations

from typing import Final

from iso4217 import Currency

# Codes without an exponent (gold, test codes) are not money that can be charged.
EXPONENTS: Final[dict[str, int]] = {c.code: c.exponent for c in Currency if c.exponent is not None}


def is_currency(code: str) -> bool:
    """True for an upper-case ISO 4217 code with a minor unit."""
    return code in EXPONENTS


def format_minor(amount_minor: int, code: str) -> str:
    """An amount of minor units as a decimal of the currency: ``(1099, "USD")`` is ``10.99``."""
    exponent: int = EXPONENTS[code]
    if exponent == 0:
        return str(amount_minor)
    sign = "-" if amount_minor < 0 else ""
    whole, rest = divmod(abs(amount_minor), 10**exponent)
    return f"{sign}{whole}.{rest:0{exponent}d}"


def parse_minor(text: str, code: str) -> int:
    """The minor units of a decimal text, exactly; ValueError when it has more decimals than the currency."""
    exponent = EXPONENTS[code]
    sign = -1 if text.startswith("-") else 1
    whole, point, rest = text.removeprefix("-").partition(".")
    if not (text.isascii() and whole.isdigit() and (rest.isdigit() or not point)) or len(rest) > exponent:
        raise ValueError(f"{text!r} is not an amount of {code} with at most {exponent} decimals")
    return sign * int(whole + rest.ljust(exponent, "0"))
