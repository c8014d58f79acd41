"""The payment intent: one pure function per command, which decides the next state or refuses.

Every function takes the aggregate (never changed here), the command and the context, and returns a Decision or a
Rejection. Facts about attempts are decided in ``processor_attempt``. Source: spec 1 section 3, reference states 3.1.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import structs

from dataflows.payments.domain import routing
from dataflows.payments.domain.decision import Context, Decision, Payment
from dataflows.payments.domain.policies import risk
from schemas import identity
from schemas.payments import limits
from schemas.payments.records import AttemptKind, PaymentIntent, ProcessorAttempt
from schemas.records import Command, Rejection
from schemas.refusals import state_conflict, wrong_value

CONFIRMABLE: Final = frozenset({"requires_payment_method", "requires_confirmation"})
BLOCKED: Final = "blocked_by_risk"
_AGREED: Final = frozenset({"amount", "currency", "capture_method"})
CANCELABLE_AT_ONCE: Final = frozenset(
    {"requires_payment_method", "requires_confirmation", "requires_action", "requires_merchant_action"}
)


def decide_create(payment: Payment | None, command: Command, context: Context) -> Decision | Rejection:
    """A new intent at version 1. Its id is made of the retry identity, so a second create meets the first."""
    if payment is not None:
        return state_conflict(payment.intent.state, "This intent exists.")
    if command.expected_version not in (None, 0):
        return Rejection("version_conflict", "The object does not exist yet.", {"current_version": 0})
    wanted: dict[str, Any] = command.payload
    return Decision(
        intent=PaymentIntent(
            **wanted,  # these fields have the same names in intent and command
            id=command.aggregate_key,
            merchant_id=command.scope,
            state="requires_confirmation" if wanted["payment_method"] else "requires_payment_method",
            version=1,
            processor=context.processor,
            amount_capturable=0,
            amount_received=0,
            amount_refunded=0,
            amount_disputed=0,
            last_payment_error=None,
            cancellation_reason=None,
            latest_attempt=0,
            created_at=context.now,
            updated_at=context.now,
        )
    )


def decide_update(payment: Payment, command: Command, context: Context) -> Decision | Rejection:
    """Changes the terms before the payer's money is asked for; a field that is not given stays.

    What a processor was asked for cannot change: a late success of a refused attempt must still fit this payment.
    """
    intent = payment.intent
    if intent.state not in CONFIRMABLE:
        return wrong_state(intent, "updated")
    changes: dict[str, Any] = {name: value for name, value in command.payload.items() if value is not None}
    if not changes:
        return wrong_value("payload", "must have at least one field to change")
    if intent.latest_attempt and not changes.keys().isdisjoint(_AGREED):
        return Rejection(
            "state_conflict",
            "A processor was asked for this payment: its amount, currency and capture method stay.",
            {"current_state": intent.state, "current_version": intent.version},
        )
    method = changes.get("payment_method") or intent.payment_method
    state = "requires_confirmation" if "payment_method" in changes and method else intent.state
    return Decision(intent=advance(intent, context, state=state, **changes), amended=True)


def decide_confirm(payment: Payment, command: Command, context: Context) -> Decision | Rejection:
    """Starts an attempt to authorize (manual capture) or to purchase (automatic); the answer comes as a fact.

    If the risk rules do not allow it, no processor is asked, and the assessment says why.
    """
    intent = payment.intent
    if intent.state not in CONFIRMABLE:
        return wrong_state(intent, "confirmed")
    method: Any = command.payload["payment_method"] or intent.payment_method
    if not method:
        return state_conflict(intent.state, "Give a payment_method to confirm with.")
    if refusal := no_further_attempt(intent):
        return refusal
    changed = structs.replace(intent, payment_method=method, last_payment_error=None)
    if return_url := command.payload.get("return_url"):
        changed.return_url = str(return_url)
        return structs.replace(_confirmed(changed, command, context), amended=True)
    return _confirmed(changed, command, context)


def _confirmed(changed: PaymentIntent, command: Command, context: Context) -> Decision:
    if not context.policies.risk.version:
        return start_charge(changed, context, command)
    facts = risk.facts_of(changed, command.payload, command.signals)
    assessment = risk.assess(context.policies.risk, changed, facts, context.now)
    if assessment.outcome == "review":
        waits = advance(changed, context, state="requires_merchant_action")
        return Decision(intent=waits, risk=assessment, waiting=command)
    decided = start_charge(changed, context, command) if assessment.outcome == "allow" else _blocked(changed, context)
    return structs.replace(decided, risk=assessment)


def decide_capture(payment: Payment, command: Command, context: Context) -> Decision | Rejection:
    """Starts an attempt to take authorized money: all of it or a part, once or several times.

    The last one may always be asked for: held money can be taken or released, however much was tried before.
    """
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
    if not final and (refusal := no_further_attempt(intent)):
        return refusal
    return _start_attempt(intent, context, "capture", amount, parent=authorization(payment), final=final)


def decide_cancel(payment: Payment, command: Command, context: Context) -> Decision | Rejection:
    """Cancels at once if no money is held, otherwise starts an attempt to release the hold."""
    intent = payment.intent
    reason: Any = command.payload["cancellation_reason"]
    if intent.state in CANCELABLE_AT_ONCE:
        # While the payer acts, the attempt is open: money that it takes is given back, a hold released.
        canceled = advance(intent, context, state="canceled", cancellation_reason=reason, next_action=None)
        return Decision(intent=canceled)
    if intent.state != "requires_capture":
        return wrong_state(intent, "canceled")
    changed = structs.replace(intent, cancellation_reason=reason)
    return _start_attempt(changed, context, "void", intent.amount_capturable, parent=authorization(payment))


def authorization(payment: Payment) -> ProcessorAttempt | None:
    """The attempt whose hold is captured or released; None if nothing is held."""
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


def no_further_attempt(intent: PaymentIntent) -> Rejection | None:
    """The refusal of a command that would begin one more attempt than the owner of the payment can carry.

    What a processor or the platform has to do goes on past the bound: facts, releases, money that is given back.
    """
    if intent.latest_attempt < limits.PAYMENT_ATTEMPTS_MAX:
        return None
    most = limits.PAYMENT_ATTEMPTS_MAX
    return Rejection("too_many_attempts", f"A payment has {most} attempts at most, refunds among them.", {"most": most})


def start_charge(intent: PaymentIntent, context: Context, command: Command) -> Decision:
    """Starts the attempt that takes or holds the payer's money, at the processor that the rules choose."""
    reason: str | None = None
    if context.policies.routing.version:
        route = routing.route(context, intent, routing.card_of(command))
        intent, reason = structs.replace(intent, processor=route.processor), route.reason
    return _start_attempt(intent, context, _charge_kind(intent), intent.amount, route=reason)


def fail_over(payment: Payment, ended: ProcessorAttempt, route: routing.Route, context: Context) -> Decision:
    """Starts the same charge at another processor, in the commit that learned that ``ended`` failed."""
    intent = structs.replace(payment.intent, processor=route.processor, next_action=None)
    decision = _start_attempt(intent, context, ended.kind, ended.amount, route=route.reason)
    return structs.replace(decision, caused_by=ended)


def _blocked(intent: PaymentIntent, context: Context) -> Decision:
    """An attempt that is never sent; the intent may be confirmed again, with another method or later."""
    attempt = new_attempt(intent, context, _charge_kind(intent), intent.amount, parent=None, final=True)
    attempt = structs.replace(attempt, status="blocked", error_code=BLOCKED)
    after = advance(
        intent, context, state="requires_payment_method", latest_attempt=attempt.attempt, last_payment_error=BLOCKED
    )
    return Decision(intent=after, attempt=attempt)


def _charge_kind(intent: PaymentIntent) -> AttemptKind:
    return "authorize" if intent.capture_method == "manual" else "purchase"


def _start_attempt(
    intent: PaymentIntent,
    context: Context,
    kind: AttemptKind,
    amount: int,
    *,
    parent: ProcessorAttempt | None = None,
    final: bool = True,
    route: str | None = None,
) -> Decision:
    attempt = new_attempt(intent, context, kind, amount, parent=parent, final=final, route=route)
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
    route: str | None = None,
) -> ProcessorAttempt:
    """The next attempt of an intent. One that works on an earlier attempt goes to its processor with its method."""
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
        route=route,
    )
