"""The name of a committed event as merchants' webhooks say it: what it is about, and what became of it. Pure.

``payment_intent.succeeded`` says that an outcome or a decision left the payment in that state. A name may be told
again for the same state (a remainder is released after the capture): the object's ``version`` tells what is newer.
"""

from __future__ import annotations

from typing import Any, Final, get_args

from schemas.payments import records

_CREATED: Final = "created"
_UPDATED: Final = "updated"
#: what a body has, the most particular first; an attempt has no name of its own
_OBJECTS: Final = ("refund", "dispute", "payout", "payout_destination", "payment_intent", "account")
_MAKES: Final = {
    "create_payment_intent": "payment_intent",
    "create_refund": "refund",
    "create_payout": "payout",
    "create_payout_destination": "payout_destination",
}
#: operations that decide a state; all others change something beside it
_DECIDES: Final = frozenset(
    (
        *("confirm_payment_intent", "capture_payment_intent", "cancel_payment_intent", "review_payment_intent"),
        *("expire_authorization", "record_attempt_outcome", "cancel_refund", "record_dispute"),
        *("cancel_payout", "record_payout_outcome", "freeze_account", "unfreeze_account"),
        "disable_payout_destination",
    )
)
_STATES: Final = {
    "payment_intent": get_args(records.IntentState),
    "refund": get_args(records.RefundState),
    "dispute": get_args(records.DisputeState),
    "payout": get_args(records.PayoutState),
    "payout_destination": get_args(records.DestinationState),
    "account": get_args(records.AccountState),
}
EVENT_NAMES: Final = tuple(
    f"{kind}.{word}" for kind, states in _STATES.items() for word in (_CREATED, _UPDATED, *states)
)


def subject_of(body: dict[str, Any]) -> str:
    """Which object of the body the event is about."""
    return next((kind for kind in _OBJECTS if body.get(kind) is not None), "payment_intent")


def event_name(operation: str, body: dict[str, Any]) -> str:
    """The name of an event, by the operation that it came of and its body."""
    kind = subject_of(body)
    subject = body.get(kind) or {}
    is_new_dispute = kind == "dispute" and subject.get("version") == 1
    if _MAKES.get(operation) == kind or is_new_dispute:
        return f"{kind}.{_CREATED}"
    state = subject.get("state")
    return f"{kind}.{state}" if operation in _DECIDES and state else f"{kind}.{_UPDATED}"
