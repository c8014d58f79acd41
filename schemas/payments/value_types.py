"""The kinds of values that payments alone have: tokens, evidence, lines of a journal, rates."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from schemas import limits
from schemas.fields import card_number, validation
from schemas.fields import value_types as types
from schemas.fields.validation import ValueType
from schemas.payments import limits as payments_limits

_COUNTRY_LENGTH: Final = 2


def _token(value: object) -> str | None:
    if reason := validation.free_text(value, payments_limits.TOKEN_LENGTH_MAX):
        return reason
    if isinstance(value, str) and not (value.startswith(("tok_", "pm_")) and value.isascii()):
        return "must be a token that starts with tok_ or pm_; never send card numbers here"
    return None


def _next_action(value: object) -> str | None:
    """A processor's own words, as the text of a JSON object."""
    if reason := validation.clean_text(value, payments_limits.NEXT_ACTION_LENGTH_MAX):
        return reason
    return None if str(value).startswith("{") else "must be the text of an object"


def _evidence(value: object) -> str | None:
    """Texts by kind, such as "receipt" or "customer_communication"."""
    if not isinstance(value, dict):
        return "must be an object of strings"
    if len(value) > payments_limits.EVIDENCE_KINDS_MAX:
        return f"must have at most {payments_limits.EVIDENCE_KINDS_MAX} kinds"
    for kind, text in value.items():
        if reason := validation.free_text(kind, payments_limits.EVIDENCE_KIND_LENGTH_MAX):
            return f"a kind {reason}"
        if reason := validation.free_text(text, payments_limits.EVIDENCE_TEXT_LENGTH_MAX):
            return f"the evidence of {kind[:20]!r} {reason}"
    return f"taken together {card_number.REFUSED}" if card_number.is_split_over(value) else None


def _entries(value: object) -> str | None:
    """Lines of a ledger transaction as they travel; whether they balance is the domain's matter."""
    if not isinstance(value, list) or not 1 < len(value) <= payments_limits.JOURNAL_ENTRIES_MAX:
        return f"must be a list of 2 to {payments_limits.JOURNAL_ENTRIES_MAX} entries"
    for entry in value:
        if not isinstance(entry, dict) or entry.keys() != {"account_id", "debit", "credit", "currency"}:
            return "an entry has account_id, debit, credit and currency"
        if reason := validation.text(entry["account_id"]) or validation.currency_code(entry["currency"]):
            return f"an entry's account or currency {reason}"
        if reason := validation.count(entry["debit"]) or validation.count(entry["credit"]):
            return f"an entry's amount {reason}"
    return None


def _ip(value: object) -> str | None:
    reason = "must be an IPv4 or IPv6 address"
    if not isinstance(value, str) or len(value) > payments_limits.IP_LENGTH_MAX or "%" in value:
        return reason
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return reason
    return None if str(address) == value else f"must be written as {address}"


def _email(value: object) -> str | None:
    """Enough of RFC 5321 that a processor can send a letter there; who gets it is the merchant's word."""
    if reason := validation.free_text(value, payments_limits.EMAIL_LENGTH_MAX):
        return reason
    return None if isinstance(value, str) and _EMAIL.fullmatch(value) else "must be an e-mail address"


def _descriptor(value: object) -> str | None:
    if reason := validation.free_text(value, payments_limits.STATEMENT_DESCRIPTOR_LENGTH_MAX):
        return reason
    if isinstance(value, str) and _DESCRIPTOR.fullmatch(value):
        return None
    return "must be ASCII with a letter in it, and without any of < > \\ ' \" *"


def _country(value: object) -> str | None:
    if (
        isinstance(value, str)
        and len(value) == _COUNTRY_LENGTH
        and value.isascii()
        and value.isalpha()
        and value.isupper()
    ):
        return None
    return "must be a country of two upper-case letters (ISO 3166-1)"


def _merchant(value: object) -> str | None:
    return None if isinstance(value, str) and MERCHANT_NAME.fullmatch(value) else "must be the name of a merchant"


def _rate(value: object) -> str | None:
    if isinstance(value, str) and _RATE.fullmatch(value) and value.strip("0."):
        return None
    return f"must be a decimal above zero as text, with at most {payments_limits.FX_RATE_DIGITS_MAX} digits on a side"


MERCHANT_NAME: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{limits.SCOPE_LENGTH_MAX}}}")
_EMAIL: Final = re.compile(r"[^@\s<>(),;:\\\"]+@[^@\s<>(),;:\\\"]+\.[^@\s.]+")
_PRINTED: Final = r"[ !#-&()+-;=?-\[\]-~]*"  # ASCII, without < > \ ' " *
_DESCRIPTOR: Final = re.compile(rf"{_PRINTED}[A-Za-z]{_PRINTED}")
_RATE: Final = re.compile(
    rf"\d{{1,{payments_limits.FX_RATE_DIGITS_MAX}}}(\.\d{{1,{payments_limits.FX_RATE_DIGITS_MAX}}})?", re.ASCII
)
_ENTRY: Final = {
    "type": "record",
    "name": "JournalEntry",
    "fields": [
        {"name": "account_id", "type": "string", "doc": "account, its last part is the currency"},
        {"name": "debit", "type": "long", "doc": "minor units"},
        {"name": "credit", "type": "long", "doc": "minor units"},
        {"name": "currency", "type": "string", "doc": "ISO 4217"},
    ],
}

TOKEN: Final = ValueType(
    _token,
    "string",
    {"type": "string", "maxLength": payments_limits.TOKEN_LENGTH_MAX, "pattern": r"^(tok|pm)_[\u0020-\u007e]*$"},
)
EMAIL: Final = ValueType(
    _email, "string", {"type": "string", "format": "email", "maxLength": payments_limits.EMAIL_LENGTH_MAX}
)
DESCRIPTOR: Final = ValueType(
    _descriptor,
    "string",
    {
        "type": "string",
        "maxLength": payments_limits.STATEMENT_DESCRIPTOR_LENGTH_MAX,
        "pattern": f"^{_DESCRIPTOR.pattern}$",
    },
)
EVIDENCE: Final = ValueType(
    _evidence,
    {"type": "map", "values": "string"},
    types.texts_schema(
        payments_limits.EVIDENCE_KINDS_MAX,
        payments_limits.EVIDENCE_KIND_LENGTH_MAX,
        payments_limits.EVIDENCE_TEXT_LENGTH_MAX,
        1,
    ),
    written=True,
)
ENTRIES: Final = ValueType(
    _entries,
    {"type": "array", "items": _ENTRY},
    {"type": "array", "items": {"type": "object"}, "minItems": 2, "maxItems": payments_limits.JOURNAL_ENTRIES_MAX},
)
IP: Final = ValueType(
    _ip, "string", {"anyOf": [{"type": "string", "format": "ipv4"}, {"type": "string", "format": "ipv6"}]}
)
COUNTRY: Final = ValueType(_country, "string", {"type": "string", "pattern": "^[A-Z]{2}$"})
MERCHANT: Final = ValueType(_merchant, "string", {"type": "string", "pattern": f"^{MERCHANT_NAME.pattern}$"})
RATE: Final = ValueType(_rate, "string", {"type": "string", "pattern": f"^{_RATE.pattern}$"})
NEXT_ACTION: Final = ValueType(_next_action, "string", types.text_schema(payments_limits.NEXT_ACTION_LENGTH_MAX))
