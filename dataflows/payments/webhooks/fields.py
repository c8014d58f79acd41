"""Reads fields out of foreign JSON. A field of another type than promised is ``Surprise``, never a guess."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from schemas.fields import validation
from schemas.limits import AMOUNT_MINOR_MAX
from schemas.payments.limits import WEBHOOK_REFERENCE_LENGTH_MAX

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_SECOND_US: Final = 1_000_000


class Surprise(Exception):
    """A field is not what its format promises."""


def part(of: dict[str, Any], name: str) -> dict[str, Any]:
    """An object, empty when it is absent."""
    value = of.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Surprise(f"{name} is no object")
    return value


def text(of: dict[str, Any], name: str) -> str:
    """A text that any table of ours can hold."""
    found = optional_text(of, name)
    if found is None:
        raise Surprise(f"{name} is missing")
    return found


def optional_text(of: dict[str, Any], name: str) -> str | None:
    """A text, or None when it is absent."""
    value = of.get(name)
    if value is None:
        return None
    if reason := validation.clean_text(value, WEBHOOK_REFERENCE_LENGTH_MAX):
        raise Surprise(f"{name} {reason}")
    return str(value)


def optional_url(of: dict[str, Any], name: str) -> str | None:
    """An address that a payer can be sent to; one that is none says nothing, and hides nothing else."""
    value = of.get(name)
    return value if isinstance(value, str) and validation.web_address(value) is None else None


def unix_time(of: dict[str, Any], name: str) -> int | None:
    """Whole seconds since the epoch as microseconds. What is no time of ours says nothing, and hides nothing else."""
    value = of.get(name)
    return _time_us(value * _SECOND_US) if type(value) is int else None


def zoned_time(of: dict[str, Any], name: str) -> int | None:
    """An ISO 8601 time as microseconds since the epoch; one without its offset is none, which hides nothing else."""
    value = of.get(name)
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    if found is None or found.tzinfo is None:
        return None
    return _time_us((found - _EPOCH) // _MICROSECOND)


def _time_us(value: int) -> int | None:
    return value if validation.time_us(value) is None else None


def currency(of: dict[str, Any], name: str) -> str | None:
    """A currency in our writing."""
    found = optional_text(of, name)
    return None if found is None else found.upper()


def amount(of: dict[str, Any], name: str) -> int:
    """Minor units."""
    value = optional_amount(of, name)
    if value is None:
        raise Surprise(f"{name} is missing")
    return value


def optional_amount(of: dict[str, Any], name: str) -> int | None:
    """Minor units, or None when they are absent. Never a float, never below zero."""
    value = of.get(name)
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= AMOUNT_MINOR_MAX:
        raise Surprise(f"{name} is no amount of minor units")
    return value
