"""What values the fields of tenants hold: placements, quotas, prices, time zones."""

from __future__ import annotations

import re
from typing import Any, Final

from schemas import limits
from schemas.calendar_windows import time_zones
from schemas.fields import validation
from schemas.fields.validation import ValueType
from schemas.fields.value_types import choice, said_text
from schemas.tenancy import limits as tenancy_limits
from schemas.tenancy import pricing
from schemas.tenancy.dimension import FAULT, PATTERN, is_dimension

MODES: Final = ("pooled", "partitioned", "dedicated")
TIERS: Final = ("standard", "enterprise")
REGION_DEFAULT: Final = "home"

_REGION: Final = re.compile(r"[a-z0-9-]{1,32}")
_PRICE: Final = re.compile(
    rf"[0-9]{{1,{tenancy_limits.PRICE_DIGITS_MAX}}}(\.[0-9]{{1,{tenancy_limits.PRICE_DIGITS_MAX}}})?"
)
_LIMIT: Final = re.compile(r"[0-9]{0,16}")
_TEXTS: Final = {"type": "map", "values": "string"}


def placement(value: object) -> str | None:
    """Where data shall be: a mode and perhaps a region."""
    if not isinstance(value, dict) or not {"mode"} <= value.keys() <= {"mode", "region"}:
        return "must be an object with mode and perhaps region"
    if value["mode"] not in MODES:
        return f"mode must be one of {', '.join(MODES)}"
    region = value.get("region", REGION_DEFAULT)
    return None if isinstance(region, str) and _REGION.fullmatch(region) else "region must be 1 to 32 of a-z 0-9 -"


def quotas(value: object) -> str | None:
    """Limits by dimension; null is none."""
    if reason := _by_dimension(value):
        return reason
    for name, limit in dict(value).items():  # type: ignore[call-overload] # a dict, as was just seen
        is_count = type(limit) is int and 0 <= limit <= limits.AMOUNT_MINOR_MAX
        is_normal = isinstance(limit, str) and _LIMIT.fullmatch(limit) and int(limit or 0) <= limits.AMOUNT_MINOR_MAX
        if not (limit is None or is_count or is_normal):
            return f"the limit of {name} must be an integer of 0 or more, or null"
    return None


def given_quotas(value: object) -> str | None:
    """As ``quotas``, in the form in which people give them."""
    said = value if isinstance(value, dict) else {}
    texts = sorted(name for name, limit in said.items() if isinstance(limit, str))
    return f"the limit of {texts[0]} must be an integer of 0 or more, or null" if texts else quotas(value)


def texts_of_quotas(value: Any) -> dict[str, str]:
    """The one form in which limits travel: texts, of which the empty one is no limit."""
    return {name: "" if limit is None else str(limit) for name, limit in sorted(value.items())}


def limits_of(texts: dict[str, str]) -> dict[str, int | None]:
    """Limits as people give them."""
    return {name: int(limit) if limit else None for name, limit in texts.items()}


def prices(value: object) -> str | None:
    """Minor units a unit, by dimension, as decimal texts."""
    if reason := _by_dimension(value):
        return reason
    for name, price in dict(value).items():  # type: ignore[call-overload] # a dict, as was just seen
        is_flat = isinstance(price, str) and _PRICE.fullmatch(price)
        if not is_flat and not pricing.is_price(pricing.text_of(price)):
            return f"the price of {name} must be a decimal text, or tiers that go up, of which the last has no end"
    return None


def texts_of_prices(value: Any) -> dict[str, str]:
    """The one form in which prices travel."""
    return {name: pricing.text_of(price) for name, price in value.items()}


def _by_dimension(value: object) -> str | None:
    if not isinstance(value, dict) or len(value) > tenancy_limits.DIMENSIONS_MAX:
        return f"must be an object of at most {tenancy_limits.DIMENSIONS_MAX} dimensions"
    return None if all(map(is_dimension, value)) else f"a dimension {FAULT}"


def time_zone(value: object) -> str | None:
    """A zone of the IANA data that calendars have: none of a machine's own (localtime), none with leap seconds."""
    if reason := validation.clean_text(value, tenancy_limits.TIME_ZONE_LENGTH_MAX):
        return reason
    return None if value in time_zones() else "must be the name of a time zone, such as Europe/Lisbon"


_OBJECT: Final = {"type": "object"}
_DIMENSIONS: Final = {
    **_OBJECT,
    "propertyNames": {"pattern": f"^{PATTERN}$"},
    "maxProperties": tenancy_limits.DIMENSIONS_MAX,
}
PLACEMENT: Final = ValueType(
    placement,
    _TEXTS,
    {
        **_OBJECT,
        "properties": {"mode": {"enum": list(MODES)}, "region": {"type": "string", "pattern": r"^[a-z0-9-]{1,32}$"}},
        "required": ["mode"],
        "additionalProperties": False,
    },
)
QUOTAS: Final = ValueType(
    quotas,
    _TEXTS,
    {
        **_DIMENSIONS,
        "additionalProperties": {"type": ["integer", "null"], "minimum": 0, "maximum": limits.AMOUNT_MINOR_MAX},
    },
)
_A_PRICE: Final = {"type": "string", "pattern": r"^[0-9]{1,12}(\.[0-9]{1,12})?$"}
_A_TIER: Final = {
    "type": "object",
    "properties": {"up_to": {"type": ["integer", "null"], "minimum": 1}, "unit_price": _A_PRICE},
    "required": ["up_to", "unit_price"],
    "additionalProperties": False,
}
_TIERS: Final = {
    "type": "object",
    "properties": {
        "mode": {"enum": list(pricing.MODES)},
        "tiers": {"type": "array", "items": _A_TIER, "minItems": 1, "maxItems": tenancy_limits.PRICE_TIERS_MAX},
    },
    "required": ["mode", "tiers"],
    "additionalProperties": False,
}
PRICES: Final = ValueType(prices, _TEXTS, {**_DIMENSIONS, "additionalProperties": {"anyOf": [_A_PRICE, _TIERS]}})
TIME_ZONE: Final = ValueType(
    time_zone, "string", {"enum": ["UTC", "Europe/Lisbon", "America/New_York", "Asia/Kolkata"]}
)
NAME: Final = said_text(tenancy_limits.TENANT_NAME_LENGTH_MAX)
REASON: Final = said_text(limits.TEXT_LENGTH_MAX)
TIER: Final = choice(*TIERS)
SUSPENSION: Final = choice("read_only", "blocked")
SEALED: Final = ValueType(
    lambda value: validation.clean_text(value, tenancy_limits.SEALED_LENGTH_MAX), "string", {"type": "string"}
)
