"""The door of the domain: which function decides which operation, and what holds for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dataflows.domain import payment_intent, processor_attempt
from dataflows.domain.decision import Context, Decision, Payment
from schemas.records import Command, Rejection

PROCESSOR_SCOPE: Final = "processor:"

_DECIDE: Final[dict[str, Callable[[Payment, Command, Context], Decision | Rejection]]] = {
    "confirm_payment_intent": payment_intent.decide_confirm,
    "capture_payment_intent": payment_intent.decide_capture,
    "cancel_payment_intent": payment_intent.decide_cancel,
    "record_attempt_outcome": processor_attempt.decide_outcome,
}


def decide(payment: Payment | None, command: Command, context: Context) -> Decision | Rejection:
    """The decision on one command against the current aggregate; pure, and total over every known operation."""
    if command.operation == "create_payment_intent":
        return payment_intent.decide_create(payment, command, context)
    if payment is None or not _may_touch(payment, command):
        return Rejection("not_found", "No such object.", {})
    current = payment.intent.version
    if command.expected_version is not None and command.expected_version != current:
        return Rejection(
            "version_conflict",
            f"Version {command.expected_version} was expected; the current one is {current}.",
            {"current_version": current},
        )
    return _DECIDE[command.operation](payment, command, context)


def _may_touch(payment: Payment, command: Command) -> bool:
    """A merchant touches its own intents, a processor the intents it serves; to others they do not exist."""
    if command.operation == "record_attempt_outcome":
        return command.scope == PROCESSOR_SCOPE + payment.intent.processor
    return command.scope == payment.intent.merchant_id
