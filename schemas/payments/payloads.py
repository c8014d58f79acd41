"""What values the payloads of payments may have: one table per operation, one row per field."""

from __future__ import annotations

import ipaddress
import re
from typing import Final, get_args

from schemas import limits, records, validation
from schemas.validation import Field, Fields

_COUNTRY_LENGTH: Final = 2


def _token(value: object) -> str | None:
    if reason := validation.free_text(value, limits.TOKEN_LENGTH_MAX):
        return reason
    if isinstance(value, str) and not (value.startswith(("tok_", "pm_")) and value.isascii()):
        return "must be a token that starts with tok_ or pm_; never send card numbers here"
    return None


def _evidence(value: object) -> str | None:
    """Texts by kind, such as "receipt" or "customer_communication"."""
    if not isinstance(value, dict):
        return "must be an object of strings"
    if len(value) > limits.EVIDENCE_KINDS_MAX:
        return f"must have at most {limits.EVIDENCE_KINDS_MAX} kinds"
    for kind, text in value.items():
        if reason := validation.free_text(kind, limits.EVIDENCE_KIND_LENGTH_MAX):
            return f"a kind {reason}"
        if reason := validation.free_text(text, limits.EVIDENCE_TEXT_LENGTH_MAX):
            return f"the evidence of {kind[:20]!r} {reason}"
    return None


def _entries(value: object) -> str | None:
    """Lines of a ledger transaction as they travel; whether they balance is the domain's matter."""
    if not isinstance(value, list) or not 1 < len(value) <= limits.JOURNAL_ENTRIES_MAX:
        return f"must be a list of 2 to {limits.JOURNAL_ENTRIES_MAX} entries"
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
    "amount": Field(validation.amount_minor),
    "currency": Field(validation.currency_code),
    "payment_method": Field(_token, None, nullable=True),
    "capture_method": Field(validation.choice("automatic", "manual"), "automatic"),
    "metadata": Field(validation.metadata, {}),
}
CONFIRM: Final[Fields] = {
    "payment_method": Field(_token, None, nullable=True),
    "customer_ip": Field(_ip, None, nullable=True, later=True),
    "customer_country": Field(_country, None, nullable=True, later=True),
    "card_country": Field(_country, None, nullable=True, later=True),
}
UPDATE_INTENT: Final[Fields] = {  # absent = as it is
    "amount": Field(validation.amount_minor, None, nullable=True),
    "currency": Field(validation.currency_code, None, nullable=True),
    "payment_method": Field(_token, None, nullable=True),
    "capture_method": Field(validation.choice("automatic", "manual"), None, nullable=True),
    "metadata": Field(validation.metadata, None, nullable=True),  # in place of what was there
}
INCREMENT_AUTHORIZATION: Final[Fields] = {"amount": Field(validation.amount_minor)}  # the new total
CAPTURE: Final[Fields] = {
    "amount": Field(validation.amount_minor, None, nullable=True),  # absent = all that is capturable
    "final": Field(validation.boolean, True),  # a final capture releases what it does not take
}
CANCEL: Final[Fields] = {
    "cancellation_reason": Field(
        validation.choice("duplicate", "fraudulent", "requested_by_customer", "abandoned"), None, nullable=True
    )
}
ATTEMPT_OUTCOME: Final[Fields] = {
    "operation_id": Field(validation.text),
    "attempt": Field(validation.ordinal),
    "status": Field(
        validation.choice(
            *("pending", "unknown", "requires_action", "authorized", "captured", "voided", "refunded", "submitted"),
            *("declined", "failed", "manual_review"),
        )
    ),
    "provider_ref": Field(validation.text, None, nullable=True),
    "amount": Field(validation.count, None, nullable=True),  # as the processor echoed it; absent when it did not
    "currency": Field(validation.text, None, nullable=True),
    "error_code": Field(validation.text, None, nullable=True),
    "redirect_url": Field(
        validation.web_address, None, nullable=True, later=True
    ),  # where the payer goes: with requires_action
    "authorized_until": Field(
        validation.time_us, None, nullable=True, later=True
    ),  # when the hold ends, as the processor says
    "pending_reason": Field(
        validation.choice(*get_args(records.RefundPendingReason)), None, nullable=True, later=True
    ),  # of a refund: with pending
}

REVIEW: Final[Fields] = {
    "decision": Field(validation.choice("approve", "reject")),
    "note": Field(validation.note, None, nullable=True),
    "reviewer": Field(validation.text),  # the token's subject, filled in by the route
}
CREATE_REFUND: Final[Fields] = {
    "payment_intent": Field(validation.identity),
    "amount": Field(validation.amount_minor, None, nullable=True),  # absent = all that is refundable
    "reason": Field(validation.choice("duplicate", "fraudulent", "requested_by_customer"), None, nullable=True),
    "metadata": Field(validation.metadata, {}),
}
CANCEL_REFUND: Final[Fields] = {"refund": Field(validation.identity)}
DISPUTE: Final[Fields] = {
    "provider_ref": Field(validation.text),
    "status": Field(validation.choice(*get_args(records.DisputeState))),
    "funds": Field(validation.choice(*get_args(records.DisputeFunds))),
    "amount": Field(validation.amount_minor),
    "currency": Field(validation.currency_code),
    "fee": Field(validation.count, 0),
    "reason": Field(validation.text, None, nullable=True),
}
DISPUTE_EVIDENCE: Final[Fields] = {
    "dispute": Field(validation.identity),
    "evidence": Field(_evidence, {}),
    "submit": Field(validation.boolean, False),
}
EXPIRE_AUTHORIZATION: Final[Fields] = {
    "operation_id": Field(validation.text),
    "authorized_until": Field(validation.time_us),
}
SETTLEMENT_LINE: Final[Fields] = {
    "line_id": Field(validation.text),
    "attempt": Field(validation.ordinal),
    "operation_id": Field(validation.text),
    "finding": Field(validation.choice("matched", "short", "over", "duplicate")),
    "gross": Field(validation.signed_minor),
    "fee": Field(validation.signed_minor),
    "difference": Field(validation.count),
    "currency": Field(validation.currency_code),
}
JOURNAL: Final[Fields] = {
    "reference": Field(validation.text),
    "kind": Field(validation.text),
    "entries": Field(_entries),
    "note": Field(validation.note, None, nullable=True),
}


def _merchant(value: object) -> str | None:
    return None if isinstance(value, str) and MERCHANT.fullmatch(value) else "must be the name of a merchant"


def _destination(value: object) -> str | None:
    return validation.free_text(value, limits.PAYOUT_DESTINATION_LENGTH_MAX)


def _rate(value: object) -> str | None:
    if isinstance(value, str) and _RATE.fullmatch(value) and value.strip("0."):
        return None
    return f"must be a decimal above zero as text, with at most {limits.FX_RATE_DIGITS_MAX} digits on a side"


MERCHANT: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{limits.SCOPE_LENGTH_MAX}}}")
_RATE: Final = re.compile(rf"\d{{1,{limits.FX_RATE_DIGITS_MAX}}}(\.\d{{1,{limits.FX_RATE_DIGITS_MAX}}})?", re.ASCII)

CREATE_PAYOUT: Final[Fields] = {
    "amount": Field(validation.amount_minor),
    "currency": Field(validation.currency_code),
    "destination": Field(_destination),
    "metadata": Field(validation.metadata, {}),
}
CANCEL_PAYOUT: Final[Fields] = {"payout": Field(validation.identity)}
PAYOUT_OUTCOME: Final[Fields] = {
    "payout": Field(validation.identity),
    "status": Field(validation.choice("paid", "failed")),
    "amount": Field(validation.amount_minor),
    "currency": Field(validation.currency_code),
    "bank": Field(validation.text),  # our own account that the money left, or came back to
    "reason": Field(validation.note, None, nullable=True),
}
RESERVE: Final[Fields] = {
    "merchant_id": Field(_merchant),
    "amount": Field(validation.amount_minor),
    "currency": Field(validation.currency_code),
    "reason": Field(validation.note),
}
CONVERSION: Final[Fields] = {
    "merchant_id": Field(_merchant),
    "source_amount": Field(validation.amount_minor),
    "source_currency": Field(validation.currency_code),
    "target_amount": Field(validation.amount_minor),
    "target_currency": Field(validation.currency_code),
    "rate": Field(_rate),  # target per source, in whole units of both
}
FREEZE: Final[Fields] = {"merchant_id": Field(_merchant), "reason": Field(validation.note)}
