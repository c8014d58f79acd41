"""What usage costs: a price of many digits, a quantity of any size, one rounding for each line. Pure, no floats."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Final

from schemas import limits

PRICE: Final = re.compile(
    rf"(0|[1-9][0-9]{{0,{limits.PRICE_DIGITS_MAX - 1}}})(\.[0-9]{{1,{limits.PRICE_DIGITS_MAX}}})?"
)
#: exact for every price and any sum of usage: nothing is rounded but the line
_CONTEXT: Final = Context(prec=200)
_WHOLE: Final = Decimal(1)


def is_price(text: object) -> bool:
    """Whether a text is a price: minor units for one, as a decimal number without sign or exponent."""
    return isinstance(text, str) and PRICE.fullmatch(text) is not None


def amount(price: str, quantity: int) -> int:
    """What a quantity costs in minor units: rounded once, half to even."""
    exact = _CONTEXT.multiply(Decimal(price), Decimal(quantity))
    return int(exact.quantize(_WHOLE, ROUND_HALF_EVEN, _CONTEXT))
