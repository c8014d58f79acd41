"""What usage costs: a price of many digits, a quantity of any size, one rounding for each line. Pure, no floats.

A price is a text: ``0.25`` for each unit, or tiers, ``graduated:1000@0.25,*@0.2``. Graduated, each unit costs what its
own tier says; by volume, all of them cost what the tier of the last one says. ``*`` has no end.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple

from schemas.tenancy import limits

_NUMBER: Final = rf"(?:0|[1-9][0-9]{{0,{limits.PRICE_DIGITS_MAX - 1}}})(?:\.[0-9]{{1,{limits.PRICE_DIGITS_MAX}}})?"
PRICE: Final = re.compile(_NUMBER)
MODES: Final = ("graduated", "volume")
_TIER: Final = rf"(?:[1-9][0-9]{{0,15}}|\*)@{_NUMBER}"
_TIERS: Final = re.compile(rf"({'|'.join(MODES)}):({_TIER}(?:,{_TIER}){{0,{limits.PRICE_TIERS_MAX - 1}}})")
_ENDLESS: Final = "*"
#: exact for every price and any sum of usage: nothing is rounded but the line
_CONTEXT: Final = Context(prec=200)
_WHOLE: Final = Decimal(1)
_NOTHING: Final = Decimal(0)


class Tier(NamedTuple):
    """What a unit costs, up to and with the ``up_to``th; None = without end."""

    up_to: int | None
    unit_price: str


class Tariff(NamedTuple):
    """Tiers that go up, of which the last has no end."""

    mode: str
    tiers: tuple[Tier, ...]


@lru_cache(maxsize=limits.PRICES_READ_MAX)
def tariff(price: str) -> Tariff | None:
    """The tiers of a price; None of one that is the same for every unit."""
    found = _TIERS.fullmatch(price)
    if found is None:
        return None
    said = (tier.split("@") for tier in found[2].split(","))
    return Tariff(found[1], tuple(Tier(None if end == _ENDLESS else int(end), unit_price) for end, unit_price in said))


def is_price(text: object) -> bool:
    """Whether a text is a price: minor units for one, as a decimal number without sign or exponent; or tiers."""
    if not isinstance(text, str):
        return False
    if PRICE.fullmatch(text):
        return True
    found = tariff(text)
    if found is None:
        return False
    ends = [tier.up_to for tier in found.tiers]
    bounds = [end for end in ends[:-1] if end is not None]
    return ends[-1] is None and len(bounds) == len(ends) - 1 and bounds == sorted(set(bounds))


def text_of(said: Any) -> str:
    """The one form of a price, as people give it; what is none of ours stays no price. A number is none: it rounds."""
    if isinstance(said, str):
        return said
    if not isinstance(said, dict) or said.keys() != {"mode", "tiers"} or not isinstance(said["tiers"], list):
        return ""
    return f"{said['mode']}:" + ",".join(map(_tier_text, said["tiers"]))


def _tier_text(said: Any) -> str:
    if not isinstance(said, dict) or said.keys() != {"up_to", "unit_price"} or not isinstance(said["unit_price"], str):
        return ""
    end = said["up_to"]
    return f"{_ENDLESS if end is None else end if type(end) is int else ''}@{said['unit_price']}"


def shown(price: str) -> str | dict[str, Any]:
    """A price as people give it."""
    found = tariff(price)
    if found is None:
        return price
    return {"mode": found.mode, "tiers": [tier._asdict() for tier in found.tiers]}


def amount(price: str, quantity: int, before: int = 0) -> int:
    """What a quantity costs in minor units behind what came ``before`` it: rounded once, half to even."""
    exact = _CONTEXT.subtract(_charge(price, before + quantity), _charge(price, before))
    return int(exact.quantize(_WHOLE, ROUND_HALF_EVEN, _CONTEXT))


def _charge(price: str, quantity: int) -> Decimal:
    found = tariff(price)
    if found is None:
        return _cost(price, quantity)
    if found.mode == "volume":
        own = next(tier for tier in found.tiers if tier.up_to is None or quantity <= tier.up_to)
        return _cost(own.unit_price, quantity)
    whole, begins = _NOTHING, 0
    for tier in found.tiers:
        ends = quantity if tier.up_to is None else min(quantity, tier.up_to)
        if ends <= begins:
            break
        whole = _CONTEXT.add(whole, _cost(tier.unit_price, ends - begins))
        begins = ends
    return whole


def _cost(unit_price: str, quantity: int) -> Decimal:
    return _CONTEXT.multiply(Decimal(unit_price), Decimal(quantity))
