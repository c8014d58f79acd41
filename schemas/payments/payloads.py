"""What values the payloads of payments may have: one table per operation, one row per field."""

from __future__ import annotations

from typing import Final, get_args

from schemas import limits
from schemas.fields import value_types as types
from schemas.fields.validation import Field, Fields
from schemas.payments import bank_account, records
from schemas.payments import limits as payments_limits
from schemas.payments import value_types as own

_CAPTURE_METHODS: Final = ("automatic", "manual")
_REFERENCE: Final = types.free_text(limits.REFERENCE_LENGTH_MAX)
#: beside a fact, which is taken as it comes
_NOTE: Final = types.free_text(limits.TEXT_LENGTH_MAX)

#: what the payer is told of a payment, and where a challenge of the payer's bank sends it back to
_FOR_PAYER: Final[Fields] = {
    "description": Field(
        types.free_text(limits.TEXT_LENGTH_MAX), "for the payer: what it is for", None, nullable=True, since=3
    ),
    "receipt_email": Field(own.EMAIL, "where the processor sends a receipt", None, nullable=True, since=3),
    "statement_descriptor": Field(
        own.DESCRIPTOR, "for the payer's statement, behind the merchant's name", None, nullable=True, since=3
    ),
    "return_url": Field(
        types.CALLERS_WEB_ADDRESS, "where the payer goes after a challenge", None, nullable=True, since=3
    ),
}

CREATE_INTENT: Final[Fields] = {
    "amount": Field(types.AMOUNT, "minor units"),
    "currency": Field(types.CURRENCY, "ISO 4217"),
    "payment_method": Field(own.TOKEN, "token of a funding instrument", None, nullable=True),
    "capture_method": Field(
        types.choice(*_CAPTURE_METHODS, avro={"type": "enum", "name": "CaptureMethod", "symbols": [*_CAPTURE_METHODS]}),
        "when money is taken",
        "automatic",
    ),
    "metadata": Field(types.METADATA, "the merchant's own", {}),
    "reference": Field(_REFERENCE, "the merchant's own name of it, to find it by", None, nullable=True, since=2),
    **_FOR_PAYER,
}
CONFIRM: Final[Fields] = {
    "payment_method": Field(own.TOKEN, "replaces the intent's token", None, nullable=True),
    "customer_ip": Field(own.IP, "the payer's address, as the merchant saw it", None, nullable=True, since=2),
    "customer_country": Field(own.COUNTRY, "the payer's country, ISO 3166-1 alpha-2", None, nullable=True, since=2),
    "card_country": Field(own.COUNTRY, "the country of the card, ISO 3166-1 alpha-2", None, nullable=True, since=2),
    "return_url": Field(
        types.CALLERS_WEB_ADDRESS,
        "where the payer goes after a challenge; replaces the intent's",
        None,
        nullable=True,
        since=3,
    ),
}
UPDATE_INTENT: Final[Fields] = {
    "amount": Field(types.AMOUNT, "minor units; null = as it is", None, nullable=True),
    "currency": Field(types.CURRENCY, "ISO 4217; null = as it is", None, nullable=True),
    "payment_method": Field(own.TOKEN, "token of a funding instrument; null = as it is", None, nullable=True),
    "capture_method": Field(
        types.choice(*_CAPTURE_METHODS), "automatic or manual; null = as it is", None, nullable=True
    ),
    "metadata": Field(
        types.METADATA, "the merchant's own, in place of what was there; null = as it is", None, nullable=True
    ),
    "reference": Field(_REFERENCE, "the merchant's own name of it; null = as it is", None, nullable=True, since=2),
    **_FOR_PAYER,
}
INCREMENT_AUTHORIZATION: Final[Fields] = {
    "amount": Field(types.AMOUNT, "the new total of the authorization, minor units")
}
CAPTURE: Final[Fields] = {
    "amount": Field(types.AMOUNT, "minor units; null = all that is capturable", None, nullable=True),
    "final": Field(types.BOOLEAN, "release what is not taken", True),
}
CANCEL: Final[Fields] = {
    "cancellation_reason": Field(
        types.choice("duplicate", "fraudulent", "requested_by_customer", "abandoned"), "why", None, nullable=True
    )
}
ATTEMPT_OUTCOME: Final[Fields] = {
    "operation_id": Field(types.TEXT, "identity of the attempt at the processor"),
    "attempt": Field(types.ORDINAL, "number of the attempt in its intent"),
    "status": Field(
        types.choice(
            *("pending", "unknown", "requires_action", "authorized", "captured", "voided", "refunded", "submitted"),
            *("declined", "failed", "manual_review"),
        ),
        "what the processor says, in our words",
    ),
    "provider_ref": Field(types.TEXT, "the processor's own id", None, nullable=True),
    "amount": Field(types.COUNT, "as echoed, minor units", None, nullable=True),  # absent when it did not
    "currency": Field(types.TEXT, "as echoed", None, nullable=True),
    "error_code": Field(types.TEXT, "why it was declined or failed", None, nullable=True),
    "redirect_url": Field(
        types.WEB_ADDRESS, "where the payer has to go; only with requires_action", None, nullable=True, since=2
    ),
    "authorized_until": Field(
        types.TIME_US,
        "when the hold ends, as the processor says; microseconds since the epoch",
        None,
        nullable=True,
        since=2,
    ),
    "pending_reason": Field(
        types.choice(*get_args(records.RefundPendingReason)),
        "why a refund is pending, as the processor says; only with pending",
        None,
        nullable=True,
        since=3,
    ),
    "next_action": Field(
        own.NEXT_ACTION,
        "what the payer has to do when that is more than to go to redirect_url; only with requires_action",
        None,
        nullable=True,
        since=4,
    ),
}

REVIEW: Final[Fields] = {
    "decision": Field(types.choice("approve", "reject"), "approve or reject"),
    "note": Field(types.NOTE, "why, for people", None, nullable=True),
    "reviewer": Field(types.TEXT, "who decided: the subject of the token"),  # filled in by the route
}
CREATE_REFUND: Final[Fields] = {
    "payment_intent": Field(types.ID, "the payment to refund"),
    "amount": Field(types.AMOUNT, "minor units; null = all that is refundable", None, nullable=True),
    "reason": Field(
        types.choice("duplicate", "fraudulent", "requested_by_customer"), "the merchant's", None, nullable=True
    ),
    "metadata": Field(types.METADATA, "the merchant's own", {}),
}
CANCEL_REFUND: Final[Fields] = {"refund": Field(types.ID, "the refund to cancel")}
DISPUTE: Final[Fields] = {
    "provider_ref": Field(types.TEXT, "the processor's own id of the dispute"),
    "status": Field(types.choice(*get_args(records.DisputeState)), "what the processor says, in our words"),
    "funds": Field(
        types.choice(*get_args(records.DisputeFunds)),
        "none, withdrawn or reinstated: what has happened to the money so far",
    ),
    "amount": Field(types.AMOUNT, "minor units"),
    "currency": Field(types.CURRENCY, "ISO 4217"),
    "fee": Field(types.COUNT, "minor units", 0),
    "reason": Field(types.TEXT, "the network's", None, nullable=True),
    "evidence_due_by": Field(
        types.TIME_US,
        "by when the processor wants the evidence, microseconds since the epoch; only with a status that asks for some",
        None,
        nullable=True,
        since=2,
    ),
}
DISPUTE_EVIDENCE: Final[Fields] = {
    "dispute": Field(types.ID, "the dispute that it is about"),
    "evidence": Field(own.EVIDENCE, "the merchant's texts by kind; they replace those of the same kind", {}),
    "submit": Field(types.BOOLEAN, "send all of it to the processor, for good", False),
}
EXPIRE_AUTHORIZATION: Final[Fields] = {
    "operation_id": Field(types.TEXT, "identity of the authorization at the processor"),
    "authorized_until": Field(types.TIME_US, "when the hold ended, microseconds since the epoch"),
}
SETTLEMENT_LINE: Final[Fields] = {
    "line_id": Field(types.TEXT, "identity of the line: report and place"),
    "attempt": Field(types.ORDINAL, "number of the attempt in its intent"),
    "operation_id": Field(types.TEXT, "identity of the attempt at the processor"),
    "finding": Field(types.choice("matched", "short", "over", "duplicate"), "matched, short, over or duplicate"),
    "gross": Field(types.SIGNED_AMOUNT, "as reported, signed, minor units"),
    "fee": Field(types.SIGNED_AMOUNT, "as reported, minor units"),
    "difference": Field(types.COUNT, "how much is short or over, minor units, 0 or more"),
    "currency": Field(types.CURRENCY, "ISO 4217"),
}
JOURNAL: Final[Fields] = {
    "reference": Field(types.TEXT, "unique: it posts once"),
    "kind": Field(types.TEXT, "what it is"),
    "entries": Field(own.ENTRIES, "balanced per currency"),
    "note": Field(_NOTE, "why, and who approved it", None, nullable=True),
}
CREATE_PAYOUT: Final[Fields] = {
    "amount": Field(types.AMOUNT, "minor units"),
    "currency": Field(types.CURRENCY, "ISO 4217"),
    "destination": Field(
        types.free_text(payments_limits.PAYOUT_DESTINATION_LENGTH_MAX),
        "a registered destination; the merchant's name of its bank account where it has registered none",
    ),
    "metadata": Field(types.METADATA, "the merchant's own", {}),
}
CANCEL_PAYOUT: Final[Fields] = {"payout": Field(types.ID, "the payout to cancel")}
CREATE_DESTINATION: Final[Fields] = {
    "name": Field(types.said_text(payments_limits.PAYOUT_DESTINATION_LENGTH_MAX), "the merchant's name of it"),
    "account_number": Field(bank_account.NUMBER, "an IBAN, or the number at the bank of bank_code"),
    "bank_code": Field(
        bank_account.BANK_CODE, "the bank as its country writes it; null = in the IBAN", None, nullable=True
    ),
}
DISABLE_DESTINATION: Final[Fields] = {"destination": Field(types.ID, "the destination to disable")}
ALLOW_DESTINATION: Final[Fields] = {
    "merchant_id": Field(own.MERCHANT, "whose account"),
    "destination": Field(types.ID, "the destination whose cooling-off time ends now"),
    "reason": Field(types.NOTE, "the operator's"),
}
PAYOUT_OUTCOME: Final[Fields] = {
    "payout": Field(types.ID, "the payout"),
    "status": Field(types.choice("paid", "failed"), "paid | failed"),
    "amount": Field(types.AMOUNT, "minor units, as the bank says it"),
    "currency": Field(types.CURRENCY, "as the bank says it"),
    "bank": Field(types.TEXT, "our own account that the money left, or came back to"),
    "reason": Field(_NOTE, "why it failed", None, nullable=True),
}
RESERVE: Final[Fields] = {
    "merchant_id": Field(own.MERCHANT, "whose account"),
    "amount": Field(types.AMOUNT, "minor units"),
    "currency": Field(types.CURRENCY, "ISO 4217"),
    "reason": Field(types.NOTE, "the operator's"),
}
CONVERSION: Final[Fields] = {
    "merchant_id": Field(own.MERCHANT, "whose account"),
    "source_amount": Field(types.AMOUNT, "minor units taken"),
    "source_currency": Field(types.CURRENCY, "ISO 4217"),
    "target_amount": Field(types.AMOUNT, "minor units given"),
    "target_currency": Field(types.CURRENCY, "ISO 4217"),
    "rate": Field(own.RATE, "target per source in whole units, an exact decimal"),
}
FREEZE: Final[Fields] = {
    "merchant_id": Field(own.MERCHANT, "whose account"),
    "reason": Field(types.NOTE, "the operator's"),
}

SIGNALS_OF_CONFIRM: Final = Field(
    types.SIGNALS,
    "what the ingress saw (velocity counts, the card's fingerprint and network); null = it could not look",
    None,
    nullable=True,
    since=2,
)
SIGNALS_OF_REVIEW: Final = Field(
    types.SIGNALS,
    "what the case says of the card of the confirm that waits (network, card_country); null = nothing",
    None,
    nullable=True,
    since=2,
)
