"""The units that a processor counts a currency in, where they are not those of ISO 4217. Exact, or refused.

Our amounts are minor units of ISO 4217. If a processor's own exponent were taken for granted, a payment in Icelandic
krona would be a hundredth of what was asked. Source of Stripe's rules: its page of supported currencies (zero-decimal
currencies, special cases, and three-decimal currencies, whose last digit must be 0).
"""

from __future__ import annotations

from typing import Final

from schemas.fields.currency import EXPONENTS

_STRIPE_ZERO: Final = (
    *("BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA"),
    *("PYG", "RWF", "VND", "VUV", "XAF", "XOF", "XPF"),
)
_STRIPE_WHOLE: Final = ("ISK",)  # written with two decimals, which must be 00
_STRIPE_THREE: Final = ("BHD", "JOD", "KWD", "OMR", "TND")  # counted in thousandths, in steps of ten
#: named among the zero-decimal currencies and among the special cases that are written with two: in doubt, none
_REFUSED: Final = {"stripe": frozenset({"UGX"})}
#: adapter -> currency -> exponent; what is not here is as in ISO 4217
_EXPONENTS: Final[dict[str, dict[str, int]]] = {
    "stripe": dict.fromkeys(_STRIPE_ZERO, 0) | dict.fromkeys(_STRIPE_WHOLE, 2),
}
_STEPS: Final[dict[str, dict[str, int]]] = {
    "stripe": dict.fromkeys(_STRIPE_WHOLE, 100) | dict.fromkeys(_STRIPE_THREE, 10),
}


def exponent(adapter: str, code: str) -> int:
    """How many decimals of the currency the processor's unit has."""
    return _EXPONENTS.get(adapter, {}).get(code, EXPONENTS[code])


def to_processor(adapter: str, amount_minor: int, code: str) -> int:
    """Our amount in the processor's unit. ValueError when it cannot be said there exactly."""
    if code in _REFUSED.get(adapter, ()):
        raise ValueError(f"it is not certain in which unit the processor counts {code}")
    amount = _shifted(amount_minor, exponent(adapter, code) - EXPONENTS[code])
    if amount % _STEPS.get(adapter, {}).get(code, 1):
        raise ValueError(f"{amount} is no amount of {code} that the processor takes")
    return amount


def from_processor(adapter: str, amount: int, code: str) -> int:
    """The processor's amount in our minor units. ValueError when it has more decimals than the currency."""
    return _shifted(amount, EXPONENTS[code] - exponent(adapter, code))


def _shifted(amount: int, decimals: int) -> int:
    if decimals >= 0:
        return amount * int(10**decimals)
    whole, rest = divmod(amount, int(10**-decimals))
    if rest:
        raise ValueError(f"{amount} has a fraction that cannot be kept")
    return whole
