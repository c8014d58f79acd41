"""A card as its holder types it: its number, security code, and until when it is valid.

Pure, and silent about values: no reason that this module gives contains what was typed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from schemas.fields.card_networks import ANY_LENGTH, network_of, passes_luhn, range_of
from vault import limits

Wrong = list[dict[str, str]]  # {field, reason}, as every refusal of values has it

_FIELDS: Final = frozenset(("number", "exp_month", "exp_year", "cvc"))
_SEPARATED: Final = re.compile(r"[0-9 -]+")
_CVC: Final = re.compile(r"[0-9]{3,4}")
_LAST: Final = 4  # digits that may be shown
_MONTHS: Final = 12
_EXPIRED: Final = "is in the past: the card has expired"
#: A month is over only when it is over everywhere on earth; the last zone is twelve hours behind UTC.
_LAST_ZONE: Final = timedelta(hours=12)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A valid card. Its number is in no representation of it."""

    number: str = field(repr=False)
    network: str
    exp_month: int
    exp_year: int

    @property
    def last4(self) -> str:
        """What may be shown of the number."""
        return self.number[-_LAST:]


def read_card(payload: dict[str, Any], now: datetime) -> tuple[Card | None, Wrong]:
    """The card that a payload describes, or every reason why it describes none; the cvc is checked and dropped."""
    digits, wrong_number = _read_number(payload.get("number"))
    month, year = payload.get("exp_month"), payload.get("exp_year")
    reasons = {
        "payload.number": wrong_number,
        "payload.exp_month": _wrong_month(month),
        "payload.exp_year": _wrong_year(year, now),
        "payload.cvc": _wrong_cvc(payload.get("cvc")),
        # The field's name is not told: it could be a number in the wrong place.
        "payload": None
        if payload.keys() <= _FIELDS
        else "has a field that is none of number, exp_month, exp_year, cvc",
    }
    wrong = [{"field": name, "reason": reason} for name, reason in reasons.items() if reason]
    if wrong or digits is None or month is None or year is None:
        return None, wrong
    if _is_over(month, year, now):
        return None, [{"field": "payload.exp_month", "reason": _EXPIRED}]
    return Card(number=digits, network=network_of(digits), exp_month=month, exp_year=year), []


def _read_number(value: object) -> tuple[str | None, str | None]:
    """The digits of a number, or the reason why it is not one."""
    if not isinstance(value, str):
        return None, "is required" if value is None else "must be a string of digits"
    if len(value) > limits.CARD_NUMBER_LENGTH_MAX or not _SEPARATED.fullmatch(value):
        return None, "must be 12 to 19 digits; spaces and dashes between them are fine"
    digits = value.replace(" ", "").replace("-", "")
    if len(digits) not in ANY_LENGTH:
        return None, "must be 12 to 19 digits; spaces and dashes between them are fine"
    if digits.startswith("0") or not passes_luhn(digits):
        return None, "is not a card number: its check digit is wrong"
    row = range_of(digits)
    if len(digits) not in row.lengths:
        return None, f"has the wrong number of digits for {row.network}"
    return digits, None


def _wrong_month(value: object) -> str | None:
    if value is None:
        return "is required"
    return None if type(value) is int and 1 <= value <= _MONTHS else "must be a number from 1 to 12"


def _wrong_year(value: object, now: datetime) -> str | None:
    if value is None:
        return "is required"
    last = now.year + limits.CARD_YEARS_AHEAD_MAX
    if type(value) is not int:  # a bool is an int in Python, and not a year
        return "must be a number of four digits"
    if value < now.year - 1:
        return _EXPIRED
    return None if value <= last else f"must not be after {last}"


def _is_over(month: int, year: int, now: datetime) -> bool:
    """Whether a card that is good through this month is good no more, anywhere on earth."""
    following = datetime(year + month // _MONTHS, month % _MONTHS + 1, 1, tzinfo=UTC)
    return now >= following + _LAST_ZONE


def _wrong_cvc(value: object) -> str | None:
    if value is None or (isinstance(value, str) and _CVC.fullmatch(value)):
        return None
    return "must be a string of 3 or 4 digits"
