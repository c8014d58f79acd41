"""What values a payload may have, as data: one row per field. Ingress and owner read the same table.

``normalize`` returns the payload with its defaults, so that a retry that leaves a default out hashes alike,
or every error that it found; it never raises on any JSON value.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, get_args

from schemas import card_number, currency, limits, records

Check = Callable[[Any], str | None]  # the reason why a value is refused, or None

_REQUIRED: Final = object()
_A_CARD: Final = "(a card number)"  # what is shown instead of one
_ORDINAL_MAX: Final = 2**31 - 1  # an Avro int
_COUNTRY_LENGTH: Final = 2


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a payload: its check, and its default when it may be left out.

    ``later``: it came to an operation that had retry identities already. A request without it hashes as it did before.
    ``normal`` gives the one form of values that say the same.
    """

    check: Check
    default: object = _REQUIRED
    nullable: bool = False
    later: bool = False
    normal: Callable[[Any], Any] | None = None


Fields = dict[str, Field]


def clean_text(value: object, length_max: int, length_min: int = 1) -> str | None:
    """Why a text is refused: its type, its length, or characters that no store of ours can hold."""
    if not isinstance(value, str):
        return "must be a string"
    if not length_min <= len(value) <= length_max:
        return f"must have {length_min} to {length_max} characters"
    if not value.isprintable() and any(c < " " or c == "\x7f" or "\ud800" <= c <= "\udfff" for c in value):
        return "must not contain control characters"
    return None


def visible(text: str) -> str:
    """A stranger's text as the audit log can hold it: bounded, no card, nothing in it that a terminal would obey."""
    if card_number.holds_card_number(text):
        return _A_CARD
    return "".join(c if c.isprintable() else "\ufffd" for c in text[: limits.AUDIT_TEXT_LENGTH_MAX])


def free_text(value: object, length_max: int, length_min: int = 1) -> str | None:
    """As ``clean_text``, for what a caller writes as it likes: a card number in it is refused, and not repeated."""
    if reason := clean_text(value, length_max, length_min):
        return reason
    return card_number.REFUSED if isinstance(value, str) and card_number.holds_card_number(value) else None


def _amount(value: object) -> str | None:
    if type(value) is not int:  # a bool is an int in Python, and not an amount
        return "must be an integer of minor units"
    if not 1 <= value <= limits.AMOUNT_MINOR_MAX:
        return f"must be from 1 to {limits.AMOUNT_MINOR_MAX}"
    return None


def _currency(value: object) -> str | None:
    if not isinstance(value, str) or not currency.is_currency(value):
        return "must be an upper-case ISO 4217 code of a currency with a minor unit"
    return None


def _token(value: object) -> str | None:
    if reason := free_text(value, limits.TOKEN_LENGTH_MAX):
        return reason
    if isinstance(value, str) and not (value.startswith(("tok_", "pm_")) and value.isascii()):
        return "must be a token that starts with tok_ or pm_; never send card numbers here"
    return None


def _metadata(value: object) -> str | None:
    if not isinstance(value, dict):
        return "must be an object of strings"
    if len(value) > limits.METADATA_KEYS_MAX:
        return f"must have at most {limits.METADATA_KEYS_MAX} keys"
    for key, text in value.items():
        if reason := free_text(key, limits.METADATA_KEY_LENGTH_MAX):
            return f"a key {reason}"
        if reason := free_text(text, limits.METADATA_VALUE_LENGTH_MAX, length_min=0):
            return f"the value of {key[:20]!r} {reason}"
    return None


def _evidence(value: object) -> str | None:
    """Texts by kind, such as "receipt" or "customer_communication"."""
    if not isinstance(value, dict):
        return "must be an object of strings"
    if len(value) > limits.EVIDENCE_KINDS_MAX:
        return f"must have at most {limits.EVIDENCE_KINDS_MAX} kinds"
    for kind, text in value.items():
        if reason := free_text(kind, limits.EVIDENCE_KIND_LENGTH_MAX):
            return f"a kind {reason}"
        if reason := free_text(text, limits.EVIDENCE_TEXT_LENGTH_MAX):
            return f"the evidence of {kind[:20]!r} {reason}"
    return None


def web_address(value: object) -> str | None:
    """Why a text is no address that a payer could be sent to."""
    if reason := clean_text(value, limits.REDIRECT_URL_LENGTH_MAX):
        return reason
    return None if isinstance(value, str) and value.startswith(("https://", "http://")) else "must be a web address"


def _time(value: object) -> str | None:
    in_range = type(value) is int and 0 <= value <= limits.TIME_US_MAX
    return None if in_range else "must be a time in microseconds since the epoch"


def boolean(value: object) -> str | None:
    """A JSON boolean."""
    return None if isinstance(value, bool) else "must be true or false"


def choice(*allowed: str) -> Check:
    """One of these texts."""
    reason = "must be one of " + ", ".join(allowed)
    return lambda value: None if isinstance(value, str) and value in allowed else reason


def _text(value: object) -> str | None:
    return clean_text(value, limits.TEXT_LENGTH_MAX)


def _note(value: object) -> str | None:
    return free_text(value, limits.TEXT_LENGTH_MAX)


def _count(value: object) -> str | None:
    return None if type(value) is int and 0 <= value <= limits.AMOUNT_MINOR_MAX else "must be an integer of 0 or more"


def _ordinal(value: object) -> str | None:
    return None if type(value) is int and 0 <= value <= _ORDINAL_MAX else "must be the number of an attempt"


def _signed(value: object) -> str | None:
    return None if type(value) is int and abs(value) <= limits.AMOUNT_MINOR_MAX else "must be an integer of minor units"


def identity(value: object) -> str | None:
    """An id as we give them."""
    if reason := free_text(value, limits.AGGREGATE_KEY_LENGTH_MAX):
        return reason
    if isinstance(value, str) and not (value.isascii() and value.replace("_", "").isalnum()):
        return "must be an id as we gave it"
    return None


def _entries(value: object) -> str | None:
    """Lines of a ledger transaction as they travel; whether they balance is the domain's matter."""
    if not isinstance(value, list) or not 1 < len(value) <= limits.JOURNAL_ENTRIES_MAX:
        return f"must be a list of 2 to {limits.JOURNAL_ENTRIES_MAX} entries"
    for entry in value:
        if not isinstance(entry, dict) or entry.keys() != {"account_id", "debit", "credit", "currency"}:
            return "an entry has account_id, debit, credit and currency"
        if reason := _text(entry["account_id"]) or _currency(entry["currency"]):
            return f"an entry's account or currency {reason}"
        if reason := _count(entry["debit"]) or _count(entry["credit"]):
            return f"an entry's amount {reason}"
    return None


def _ip(value: object) -> str | None:
    reason = "must be an IPv4 or IPv6 address"
    if not isinstance(value, str) or len(value) > limits.IP_LENGTH_MAX or "%" in value:
        return reason
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return reason
    return None if str(address) == value else f"must be written as {address}"


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


CREATE_INTENT: Final[Fields] = {
    "amount": Field(_amount),
    "currency": Field(_currency),
    "payment_method": Field(_token, None, nullable=True),
    "capture_method": Field(choice("automatic", "manual"), "automatic"),
    "metadata": Field(_metadata, {}),
}
CONFIRM: Final[Fields] = {
    "payment_method": Field(_token, None, nullable=True),
    "customer_ip": Field(_ip, None, nullable=True, later=True),
    "customer_country": Field(_country, None, nullable=True, later=True),
    "card_country": Field(_country, None, nullable=True, later=True),
}
UPDATE_INTENT: Final[Fields] = {  # absent = as it is
    "amount": Field(_amount, None, nullable=True),
    "currency": Field(_currency, None, nullable=True),
    "payment_method": Field(_token, None, nullable=True),
    "capture_method": Field(choice("automatic", "manual"), None, nullable=True),
    "metadata": Field(_metadata, None, nullable=True),  # in place of what was there
}
INCREMENT_AUTHORIZATION: Final[Fields] = {"amount": Field(_amount)}  # the new total
CAPTURE: Final[Fields] = {
    "amount": Field(_amount, None, nullable=True),  # absent = all that is capturable
    "final": Field(boolean, True),  # a final capture releases what it does not take
}
CANCEL: Final[Fields] = {
    "cancellation_reason": Field(
        choice("duplicate", "fraudulent", "requested_by_customer", "abandoned"), None, nullable=True
    )
}
ATTEMPT_OUTCOME: Final[Fields] = {
    "operation_id": Field(_text),
    "attempt": Field(_ordinal),
    "status": Field(
        choice(
            *("pending", "unknown", "requires_action", "authorized", "captured", "voided", "refunded", "submitted"),
            *("declined", "failed", "manual_review"),
        )
    ),
    "provider_ref": Field(_text, None, nullable=True),
    "amount": Field(_count, None, nullable=True),  # as the processor echoed it; absent when it did not
    "currency": Field(_text, None, nullable=True),
    "error_code": Field(_text, None, nullable=True),
    "redirect_url": Field(web_address, None, nullable=True, later=True),  # where the payer goes: with requires_action
    "authorized_until": Field(_time, None, nullable=True, later=True),  # when the hold ends, as the processor says
    "pending_reason": Field(
        choice(*get_args(records.RefundPendingReason)), None, nullable=True, later=True
    ),  # of a refund: with pending
}

REVIEW: Final[Fields] = {
    "decision": Field(choice("approve", "reject")),
    "note": Field(_note, None, nullable=True),
    "reviewer": Field(_text),  # the token's subject, filled in by the route
}
CREATE_REFUND: Final[Fields] = {
    "payment_intent": Field(identity),
    "amount": Field(_amount, None, nullable=True),  # absent = all that is refundable
    "reason": Field(choice("duplicate", "fraudulent", "requested_by_customer"), None, nullable=True),
    "metadata": Field(_metadata, {}),
}
CANCEL_REFUND: Final[Fields] = {"refund": Field(identity)}
DISPUTE: Final[Fields] = {
    "provider_ref": Field(_text),
    "status": Field(choice(*get_args(records.DisputeState))),
    "funds": Field(choice(*get_args(records.DisputeFunds))),
    "amount": Field(_amount),
    "currency": Field(_currency),
    "fee": Field(_count, 0),
    "reason": Field(_text, None, nullable=True),
}
DISPUTE_EVIDENCE: Final[Fields] = {
    "dispute": Field(identity),
    "evidence": Field(_evidence, {}),
    "submit": Field(boolean, False),
}
EXPIRE_AUTHORIZATION: Final[Fields] = {"operation_id": Field(_text), "authorized_until": Field(_time)}
SETTLEMENT_LINE: Final[Fields] = {
    "line_id": Field(_text),
    "attempt": Field(_ordinal),
    "operation_id": Field(_text),
    "finding": Field(choice("matched", "short", "over", "duplicate")),
    "gross": Field(_signed),
    "fee": Field(_signed),
    "difference": Field(_count),
    "currency": Field(_currency),
}
JOURNAL: Final[Fields] = {
    "reference": Field(_text),
    "kind": Field(_text),
    "entries": Field(_entries),
    "note": Field(_note, None, nullable=True),
}


def _merchant(value: object) -> str | None:
    return None if isinstance(value, str) and _MERCHANT.fullmatch(value) else "must be the name of a merchant"


def _destination(value: object) -> str | None:
    return free_text(value, limits.PAYOUT_DESTINATION_LENGTH_MAX)


def _rate(value: object) -> str | None:
    if isinstance(value, str) and _RATE.fullmatch(value) and value.strip("0."):
        return None
    return f"must be a decimal above zero as text, with at most {limits.FX_RATE_DIGITS_MAX} digits on a side"


_MERCHANT: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{limits.SCOPE_LENGTH_MAX}}}")
_RATE: Final = re.compile(rf"\d{{1,{limits.FX_RATE_DIGITS_MAX}}}(\.\d{{1,{limits.FX_RATE_DIGITS_MAX}}})?", re.ASCII)

CREATE_PAYOUT: Final[Fields] = {
    "amount": Field(_amount),
    "currency": Field(_currency),
    "destination": Field(_destination),
    "metadata": Field(_metadata, {}),
}
CANCEL_PAYOUT: Final[Fields] = {"payout": Field(identity)}
PAYOUT_OUTCOME: Final[Fields] = {
    "payout": Field(identity),
    "status": Field(choice("paid", "failed")),
    "amount": Field(_amount),
    "currency": Field(_currency),
    "bank": Field(_text),  # our own account that the money left, or came back to
    "reason": Field(_note, None, nullable=True),
}
RESERVE: Final[Fields] = {
    "merchant_id": Field(_merchant),
    "amount": Field(_amount),
    "currency": Field(_currency),
    "reason": Field(_note),
}
CONVERSION: Final[Fields] = {
    "merchant_id": Field(_merchant),
    "source_amount": Field(_amount),
    "source_currency": Field(_currency),
    "target_amount": Field(_amount),
    "target_currency": Field(_currency),
    "rate": Field(_rate),  # target per source, in whole units of both
}
FREEZE: Final[Fields] = {"merchant_id": Field(_merchant), "reason": Field(_note)}

_OF_THE_TOKEN: Final = frozenset({"merchant", "merchant_id", "tenant", "tenant_id", "scope"})


def names_its_caller(payload: dict[str, object], fields: Fields) -> str | None:
    """The first field that only a token may say (merchant, tenant), or None. Rule: identity comes only from claims.

    A policy's ``scope`` is no identity: it may be said where it is a field.
    """
    own = {"scope"} & fields.keys()
    return next((name for name in payload if name in _OF_THE_TOKEN and name not in own), None)


def _sendable(name: object) -> str:
    """A caller's own field name as it can be told: short, no card, no lone surrogates, which no encoder takes."""
    if card_number.holds_card_number(str(name)):
        return _A_CARD
    return str(name)[:40].encode(errors="replace").decode()


def normalize(fields: Fields, payload: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """The payload with every field of the table, and the list of {field, reason} that forbids it (empty = valid)."""
    errors: list[dict[str, str]] = []
    result: dict[str, Any] = {}
    for name, spec in fields.items():
        value = payload.get(name, _REQUIRED)
        if value is _REQUIRED:
            if spec.default is _REQUIRED:
                errors.append({"field": f"payload.{name}", "reason": "is required"})
            result[name] = spec.default
        elif value is None and spec.nullable:
            result[name] = None
        elif reason := spec.check(value):
            errors.append({"field": f"payload.{name}", "reason": reason})
        else:
            result[name] = value if spec.normal is None else spec.normal(value)
    if len(payload) > len(fields) or not payload.keys() <= fields.keys():
        errors.extend(
            {"field": f"payload.{_sendable(name)}", "reason": "is not a field of this operation"}
            for name in payload
            if name not in fields
        )
    return result, errors


def hashed(fields: Fields, payload: dict[str, Any]) -> dict[str, Any]:
    """The part of a normal payload that its hash is of: all of it, but for later fields that say nothing."""
    if not any(field.later for field in fields.values()):
        return payload
    return {name: value for name, value in payload.items() if value is not None or not fields[name].later}
