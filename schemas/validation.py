"""What values a payload may have, as data: one row per field. Ingress and owner read the same table.

``normalize`` returns the payload with its defaults, so that a retry that leaves a default out hashes alike,
or every error that it found; it never raises on any JSON value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, get_args

from schemas import currency, limit_policy, limits, records

Check = Callable[[Any], str | None]  # the reason why a value is refused, or None

_REQUIRED: Final = object()
_ORDINAL_MAX: Final = 2**31 - 1  # an Avro int


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a payload: its check, and its default when it may be left out."""

    check: Check
    default: object = _REQUIRED
    nullable: bool = False


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
    if reason := clean_text(value, limits.TOKEN_LENGTH_MAX):
        return reason
    if isinstance(value, str) and not (value.startswith("tok_") and value.isascii()):
        return "must be a token that starts with tok_; never send card numbers here"
    return None


def _metadata(value: object) -> str | None:
    if not isinstance(value, dict):
        return "must be an object of strings"
    if len(value) > limits.METADATA_KEYS_MAX:
        return f"must have at most {limits.METADATA_KEYS_MAX} keys"
    for key, text in value.items():
        if reason := clean_text(key, limits.METADATA_KEY_LENGTH_MAX):
            return f"a key {reason}"
        if reason := clean_text(text, limits.METADATA_VALUE_LENGTH_MAX, length_min=0):
            return f"the value of {key[:20]!r} {reason}"
    return None


def _boolean(value: object) -> str | None:
    return None if isinstance(value, bool) else "must be true or false"


def _choice(*allowed: str) -> Check:
    reason = "must be one of " + ", ".join(allowed)
    return lambda value: None if isinstance(value, str) and value in allowed else reason


def _text(value: object) -> str | None:
    return clean_text(value, limits.TEXT_LENGTH_MAX)


def _count(value: object) -> str | None:
    return None if type(value) is int and 0 <= value <= limits.AMOUNT_MINOR_MAX else "must be an integer of 0 or more"


def _ordinal(value: object) -> str | None:
    return None if type(value) is int and 0 <= value <= _ORDINAL_MAX else "must be the number of an attempt"


def _signed(value: object) -> str | None:
    return None if type(value) is int and abs(value) <= limits.AMOUNT_MINOR_MAX else "must be an integer of minor units"


def _identity(value: object) -> str | None:
    if reason := clean_text(value, limits.AGGREGATE_KEY_LENGTH_MAX):
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


CREATE_INTENT: Final[Fields] = {
    "amount": Field(_amount),
    "currency": Field(_currency),
    "payment_method": Field(_token, None, nullable=True),
    "capture_method": Field(_choice("automatic", "manual"), "automatic"),
    "metadata": Field(_metadata, {}),
}
CONFIRM: Final[Fields] = {"payment_method": Field(_token, None, nullable=True)}
CAPTURE: Final[Fields] = {
    "amount": Field(_amount, None, nullable=True),  # absent = all that is capturable
    "final": Field(_boolean, True),  # a final capture releases what it does not take
}
CANCEL: Final[Fields] = {
    "cancellation_reason": Field(
        _choice("duplicate", "fraudulent", "requested_by_customer", "abandoned"), None, nullable=True
    )
}
ATTEMPT_OUTCOME: Final[Fields] = {
    "operation_id": Field(_text),
    "attempt": Field(_ordinal),
    "status": Field(
        _choice(
            "pending", "unknown", "authorized", "captured", "voided", "refunded", "declined", "failed", "manual_review"
        )
    ),
    "provider_ref": Field(_text, None, nullable=True),
    "amount": Field(_count, None, nullable=True),  # as the processor echoed it; absent when it did not
    "currency": Field(_text, None, nullable=True),
    "error_code": Field(_text, None, nullable=True),
}

CREATE_REFUND: Final[Fields] = {
    "payment_intent": Field(_identity),
    "amount": Field(_amount, None, nullable=True),  # absent = all that is refundable
    "reason": Field(_choice("duplicate", "fraudulent", "requested_by_customer"), None, nullable=True),
    "metadata": Field(_metadata, {}),
}
CANCEL_REFUND: Final[Fields] = {"refund": Field(_identity)}
DISPUTE: Final[Fields] = {
    "provider_ref": Field(_text),
    "status": Field(_choice(*get_args(records.DisputeState))),
    "funds": Field(_choice(*get_args(records.DisputeFunds))),
    "amount": Field(_amount),
    "currency": Field(_currency),
    "fee": Field(_count, 0),
    "reason": Field(_text, None, nullable=True),
}
SETTLEMENT_LINE: Final[Fields] = {
    "line_id": Field(_text),
    "attempt": Field(_ordinal),
    "operation_id": Field(_text),
    "finding": Field(_choice("matched", "short", "over", "duplicate")),
    "gross": Field(_signed),
    "fee": Field(_signed),
    "difference": Field(_count),
    "currency": Field(_currency),
}
JOURNAL: Final[Fields] = {
    "reference": Field(_text),
    "kind": Field(_text),
    "entries": Field(_entries),
    "note": Field(_text, None, nullable=True),
}


def _whole(smallest: int, largest: int) -> Check:
    reason = f"must be an integer from {smallest} to {largest}"
    return lambda value: None if type(value) is int and smallest <= value <= largest else reason


def _limit_scope(value: object) -> str | None:
    if not isinstance(value, dict) or value.keys() != set(limit_policy.KEY_PARTS):
        return "must have tenant, user and route, each a value or *"
    for name, text in value.items():
        if reason := clean_text(text, limits.LIMIT_KEY_PART_LENGTH_MAX):
            return f"{name} {reason}"
    return None


def _key_parts(value: object) -> str | None:
    allowed = limit_policy.KEY_PARTS
    if not isinstance(value, list) or not value or len(set(map(str, value))) < len(value):
        return "must be a list of different key parts"
    return None if all(part in allowed for part in value) else "must be of " + ", ".join(allowed)


PUBLISH_POLICY: Final[Fields] = {
    "policy_id": Field(_identity, None, nullable=True),  # absent = a new policy
    "scope": Field(_limit_scope),
    "per": Field(_key_parts, list(limit_policy.KEY_PARTS)),  # the parts that a counter is kept by
    "algorithm": Field(_choice(*get_args(limit_policy.Algorithm))),
    "capacity": Field(_whole(1, limit_policy.CAPACITY_MAX)),
    "refill_rate": Field(_whole(1, limit_policy.CAPACITY_MAX), None, nullable=True),
    "refill_period_ms": Field(_whole(1, limits.LIMIT_WINDOW_MS_MAX), 1_000),
    "window_ms": Field(_whole(1, limits.LIMIT_WINDOW_MS_MAX), None, nullable=True),
    "slots": Field(_whole(1, limits.LIMIT_SLOTS_MAX), 10),
    "strict": Field(_boolean, default=False),
    "consistency": Field(_choice(*get_args(limit_policy.Consistency)), "leased"),
    "failure_mode": Field(_choice(*get_args(limit_policy.FailureMode)), "closed"),
    "shadow": Field(_boolean, default=False),
    "audit": Field(_choice(*get_args(limit_policy.Audit)), "full"),
}

_OF_THE_TOKEN: Final = frozenset({"merchant", "merchant_id", "tenant", "tenant_id", "scope"})


def names_its_caller(payload: dict[str, object], fields: Fields) -> str | None:
    """The first field that only a token may say (merchant, tenant), or None. Rule: identity comes only from claims."""
    return next((name for name in payload if name in _OF_THE_TOKEN and name not in fields), None)


def _sendable(name: object) -> str:
    """A caller's own field name as it can be told: short, and without lone surrogates, which no encoder takes."""
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
            result[name] = value
    if len(payload) > len(fields) or not payload.keys() <= fields.keys():
        errors.extend(
            {"field": f"payload.{_sendable(name)}", "reason": "is not a field of this operation"}
            for name in payload
            if name not in fields
        )
    return result, errors
