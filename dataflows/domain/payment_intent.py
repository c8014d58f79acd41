"""The payment intent: one pure function per command, deciding the next state or refusing.

Every function takes the aggregate (never changed here), the command and the context, and returns a Decision or a
Rejection. Facts about attempts are decided in ``processor_attempt``. Source: spec 1 section 3, reference states 3.1.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import structs

from dataflows.domain.decision import Context, Decision, Payment
from schemas import identity
from schemas.records import AttemptKind, Command, PaymentIntent, ProcessorAttempt, Rejection

CONFIRMABLE: Final = frozenset({"requires_payment_method", "requires_confirmation"})
CANCELABLE_AT_ONCE: Final = frozenset(
    {"requires_payment_method", "requires_confirmation", "requires_action", "requires_merchant_action"}
)


def decide_create(payment: Payment | None, command: Command, context: Context) -> Decision | Rejection:
    """A new intent at version 1. Its id comes from the retry identity, so a second create meets the first."""
    if payment is not None:
        return Rejection("state_conflict", "This intent exists.", {"current_state": payment.intent.state})
    if command.expected_version not in (None, 0):
        return Rejection("version_conflict", "The object does not exist yet.", {"current_version": 0})
    wanted: dict[str, Any] = command.payload
    return Decision(
        intent=PaymentIntent(
            id=command.aggregate_key,
            merchant_id=command.scope,
            amount=wanted["amount"],
            currency=wanted["currency"],
            state="requires_confirmation" if wanted["payment_method"] else "requires_payment_method",
            version=1,
            capture_method=wanted["capture_method"],
            payment_method=wanted["payment_method"],
            processor=context.processor,
            amount_capturable=0,
            amount_received=0,
            amount_refunded=0,
            amount_disputed=0,
            last_payment_error=None,
            cancellation_reason=None,
            latest_attempt=0,
            metadata=wanted["metadata"],
            created_at=context.now,
            updated_at=context.now,
        )
    )


def decide_confirm(payment: Payment, command: Command, context: Context) -> Decision | Rejection:
    """Starts an attempt to authorize (manual capture) or to purchase (automatic); the answer comes as a fact."""
    intent = payment.intent
    if intent.state not in CONFIRMABLE:
        return wrong_state(intent, "confirmed")
    method: Any = command.payload["payment_method"] or intent.payment_method
    if not method:
        return Rejection("state_conflict", "Give a payment_method to confirm with.", {"current_state": intent.state})
    kind: AttemptKind = "authorize" if intent.capture_method == "manual" else "purchase"
    changed = structs.replace(intent, payment_method=method, last_payment_error=None)
    return _start_attempt(changed, context, kind, intent.amount)


def decide_capture(payment: Payment, command: Command, context: Context) -> Decision | Rejection:
    """Starts an attempt to take authorized money: all of it or a part, once or several times."""
    intent = payment.intent
    if intent.state != "requires_capture":
        return wrong_state(intent, "captured")
    asked: Any = command.payload["amount"]
    amount = intent.amount_capturable if asked is None else asked
    if amount > intent.amount_capturable:
        return Rejection(
            "amount_exceeds_capturable",
            f"At most {intent.amount_capturable} can be captured.",
            {"capturable": intent.amount_capturable},
        )
    final = command.payload["final"] is True or amount == intent.amount_capturable
    return _start_attempt(intent, context, "capture", amount, parent=authorization(payment), final=final)


def decide_cancel(payment: Payment, command: Command, context: Context) -> Decision | Rejection:
    """Cancels at once where no money is held, else starts an attempt to release the hold."""
    intent = payment.intent
    reason: Any = command.payload["cancellation_reason"]
    if intent.state in CANCELABLE_AT_ONCE:
        return Decision(intent=advance(intent, context, state="canceled", cancellation_reason=reason))
    if intent.state != "requires_capture":
        return wrong_state(intent, "canceled")
    changed = structs.replace(intent, cancellation_reason=reason)
    return _start_attempt(changed, context, "void", intent.amount_capturable, parent=authorization(payment))


def authorization(payment: Payment) -> ProcessorAttempt | None:
    """The attempt whose hold is captured or released; None when nothing is held."""
    return next((a for a in payment.attempts.values() if a.kind == "authorize" and a.status == "authorized"), None)


def advance(intent: PaymentIntent, context: Context, **changes: object) -> PaymentIntent:
    """The intent one version on."""
    return structs.replace(intent, version=intent.version + 1, updated_at=context.now, **changes)


def wrong_state(intent: PaymentIntent, participle: str) -> Rejection:
    """The refusal of a command that the state does not allow."""
    return Rejection(
        "state_conflict",
        f"An intent that is {intent.state} cannot be {participle}.",
        {"current_state": intent.state, "current_version": intent.version},
    )


def _start_attempt(
    intent: PaymentIntent,
    context: Context,
    kind: AttemptKind,
    amount: int,
    *,
    parent: ProcessorAttempt | None = None,
    final: bool = True,
) -> Decision:
    attempt = new_attempt(intent, context, kind, amount, parent=parent, final=final)
    changes = advance(intent, context, state="processing", latest_attempt=attempt.attempt)
    return Decision(intent=changes, attempt=attempt)


def new_attempt(
    intent: PaymentIntent,
    context: Context,
    kind: AttemptKind,
    amount: int,
    *,
    parent: ProcessorAttempt | None,
    final: bool,
) -> ProcessorAttempt:
    """The next attempt of an intent. What works on an earlier one goes to the same processor with the same method."""
    number = intent.latest_attempt + 1
    return ProcessorAttempt(
        intent_id=intent.id,
        attempt=number,
        kind=kind,
        status="created",
        operation_id=identity.operation_id(intent.id, number),
        processor=parent.processor if parent else intent.processor,
        amount=amount,
        currency=intent.currency,
        payment_method=parent.payment_method if parent else intent.payment_method or "",
        parent_ref=parent.provider_ref if parent else None,
        final=final,
        provider_ref=None,
        error_code=None,
        created_at=context.now,
        updated_at=context.now,
    )
