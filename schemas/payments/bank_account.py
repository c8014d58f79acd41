"""Bank accounts of merchants as they are registered: an IBAN, or a number at a bank that is named beside it. Pure.

Source: ISO 13616 (IBAN) with the check digits of ISO 7064, MOD 97-10.
"""

from __future__ import annotations

import re
from typing import Any, Final

from schemas.fields import card_number
from schemas.fields.validation import ValueType
from schemas.payments import limits

_IBAN: Final = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}")
_LOCAL: Final = rf"[A-Z0-9]{{{limits.BANK_ACCOUNT_LENGTH_MIN},{limits.BANK_ACCOUNT_LENGTH_MAX}}}"
_BANK: Final = rf"[A-Z0-9]{{{limits.BANK_CODE_LENGTH_MIN},{limits.BANK_CODE_LENGTH_MAX}}}"
_COUNTRY_LENGTH: Final = 2
_CHECK_LENGTH: Final = 4
_MODULUS: Final = 97


def is_iban(text: str) -> bool:
    """Whether a text is an IBAN as machines write it (no blanks, upper case), its check digits included."""
    if not _IBAN.fullmatch(text):
        return False
    turned = text[_CHECK_LENGTH:] + text[:_CHECK_LENGTH]
    return int("".join(str(int(character, 36)) for character in turned)) % _MODULUS == 1


def country_of(number: str) -> str | None:
    """The country of an account, ISO 3166-1 alpha-2; None for a number that is no IBAN."""
    return number[:_COUNTRY_LENGTH] if is_iban(number) else None


def faults(payload: dict[str, Any]) -> list[dict[str, str]]:
    """What an account number and the code of its bank must fulfil together."""
    if payload["bank_code"] is not None or is_iban(payload["account_number"]):
        return []
    reason = "must be an IBAN without blanks whose check digits are right, or has a bank_code beside it"
    return [{"field": "payload.account_number", "reason": reason}]


def _number(value: object) -> str | None:
    if not isinstance(value, str) or not re.fullmatch(_LOCAL, value):
        return f"must be upper-case letters and digits without blanks, up to {limits.BANK_ACCOUNT_LENGTH_MAX}"
    if not is_iban(value) and card_number.holds_card_number(value):
        return card_number.REFUSED
    return None


def _code(value: object) -> str | None:
    if isinstance(value, str) and re.fullmatch(_BANK, value):
        return None
    return f"must be upper-case letters and digits without blanks, up to {limits.BANK_CODE_LENGTH_MAX}"


NUMBER: Final = ValueType(_number, "string", {"type": "string", "pattern": f"^{_LOCAL}$"})
BANK_CODE: Final = ValueType(_code, "string", {"type": "string", "pattern": f"^{_BANK}$"})
