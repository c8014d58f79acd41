"""Payments in every state, built through the public door of the domain: what unit and property tests start from."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from dataflows.payments.domain import commands
from dataflows.payments.domain.decision import Context, Decision, Payment, applied
from dataflows.payments.domain.policies.fees import FeeSchedule, fee_minor
from schemas import identity
from schemas.payments.facts import RECONCILIATION_SCOPE, journal_id
from schemas.records import Command, Rejection
from schemas.services import OPERATIONS

MERCHANT: Final = "m_1"
PROCESSOR: Final = "simulator"
INTENT_ID: Final = "pi_case"
AMOUNT: Final = 10_000
CONTEXT: Final = Context(now=1_800_000_000_000_000, fees=FeeSchedule(), processor=PROCESSOR)

CREATE: Final = "create_payment_intent"
CONFIRM: Final = "confirm_payment_intent"
CAPTURE: Final = "capture_payment_intent"
CANCEL: Final = "cancel_payment_intent"
OUTCOME: Final = "record_attempt_outcome"
REFUND: Final = "create_refund"
CANCEL_REFUND: Final = "cancel_refund"
DISPUTE: Final = "record_dispute"
LINE: Final = "record_settlement_line"
JOURNAL: Final = "post_journal"


def command(
    operation: str,
    payload: dict[str, object],
    *,
    key: str = "k",
    scope: str = MERCHANT,
    aggregate_key: str = INTENT_ID,
    expected_version: int | None = None,
) -> Command:
    """A command with everything that the domain looks at."""
    return Command(
        operation=operation,
        request_id=f"req_{key}",
        idempotency_key=key,
        aggregate_key=aggregate_key,
        expected_version=expected_version,
        scope=scope,
        request_hash=identity.request_hash(OPERATIONS[operation].template, aggregate_key, payload),
        trace_id="0" * 32,
        issued_at=CONTEXT.now,
        deadline_at=0,
        reply_to=-1,
        reply_id=0,
        payload=payload,
    )


def create(
    *, amount: int = AMOUNT, method: str | None = "tok_a", capture: str = "automatic", currency: str = "USD"
) -> Command:
    """A create."""
    return command(
        CREATE,
        {
            "amount": amount,
            "currency": currency,
            "payment_method": method,
            "capture_method": capture,
            "metadata": {},
            "reference": None,
            **dict.fromkeys(("description", "receipt_email", "statement_descriptor", "return_url")),
        },
    )


def confirm(method: str | None = None, return_url: str | None = None, **envelope: int) -> Command:
    """A confirm."""
    said = dict.fromkeys(("customer_ip", "customer_country", "card_country"))
    return command(CONFIRM, {"payment_method": method, **said, "return_url": return_url}, **envelope)


def capture(amount: int | None = None, *, final: bool = True, **envelope: int) -> Command:
    """A capture of a part, or of all that is left."""
    return command(CAPTURE, {"amount": amount, "final": final}, **envelope)


def increment(total: int) -> Command:
    """An increment to a new total."""
    return command("increment_authorization", {"amount": total})


def update(**changes: object) -> Command:
    """A change of what was agreed on; ``method`` for the payment method."""
    names = ("amount", "currency", "payment_method", "capture_method", "metadata")
    changes["payment_method"] = changes.pop("method", None)
    return command("update_payment_intent", {name: changes.get(name) for name in names})


def cancel(reason: str | None = None, **envelope: int) -> Command:
    """A cancel."""
    return command(CANCEL, {"cancellation_reason": reason}, **envelope)


def fact(payment: Payment, status: str, *, number: int = 0, **said: object) -> Command:
    """What the processor says about an attempt (the newest unless a number is given), truthful unless told otherwise."""
    number = number or payment.intent.latest_attempt
    attempt = payment.attempts.get(number)
    payload: dict[str, object] = {
        "operation_id": attempt.operation_id if attempt else "op_none",
        "attempt": number,
        "status": status,
        "provider_ref": f"pr_{number}",
        "amount": attempt.amount if attempt else None,
        "currency": attempt.currency if attempt else None,
        "error_code": None,
        "redirect_url": None,
        "next_action": None,
        "authorized_until": None,
        "pending_reason": None,
    }
    return command(OUTCOME, payload | said, scope=f"processor:{attempt.processor if attempt else PROCESSOR}")


def refund(amount: int | None = None, *, key: str = "r", reason: str | None = None, scope: str = MERCHANT) -> Command:
    """A refund of a part, or of all that is left."""
    payload = {"payment_intent": INTENT_ID, "amount": amount, "reason": reason, "metadata": {}}
    return command(REFUND, payload, key=key, scope=scope)


def cancel_refund(refund_id: str) -> Command:
    """A cancel of a refund that waits."""
    return command(CANCEL_REFUND, {"refund": refund_id}, key="cr")


def failed_later(payment: Payment, number: int, error_code: str | None = None) -> Command:
    """What the processor says of a refund that succeeded, and then came back."""
    told = fact(payment, "failed", number=number, error_code=error_code)
    told.idempotency_key = f"{payment.attempts[number].operation_id}:failed_later"
    return told


def dispute(status: str, funds: str = "none", *, amount: int = AMOUNT, ref: str = "dis_1", **said: object) -> Command:
    """What the processor says about a dispute."""
    payload: dict[str, object] = {
        "provider_ref": ref,
        "status": status,
        "funds": funds,
        "amount": amount,
        "currency": "USD",
        "fee": 1_500,
        "reason": "fraudulent",
    }
    return command(DISPUTE, payload | said, scope=f"processor:{PROCESSOR}", key=f"{ref}:{status}:{funds}")


def line(payment: Payment, number: int, finding: str = "matched", difference: int = 0, **said: object) -> Command:
    """A line of a settlement about an attempt, with the fee that was accrued unless told otherwise."""
    attempt = payment.attempts[number]
    sign = -1 if attempt.kind == "refund" else 1
    payload: dict[str, object] = {
        "line_id": f"report_1:{number}:{finding}",
        "attempt": number,
        "operation_id": attempt.operation_id,
        "finding": finding,
        "gross": sign * attempt.amount,
        "fee": fee_minor(attempt.amount, CONTEXT.fees.processor_bps) if sign > 0 else 0,
        "difference": difference,
        "currency": attempt.currency,
    }
    return command(LINE, payload | said, scope=f"settlement:{PROCESSOR}")


def journal(reference: str = "payout:po_1", *, scope: str = RECONCILIATION_SCOPE, **said: object) -> Command:
    """A ledger transaction of no payment: money that left for the bank."""
    entries = [
        {"account_id": "payout_in_transit:simulator:USD", "debit": 5, "credit": 0, "currency": "USD"},
        {"account_id": "processor_receivable:simulator:USD", "debit": 0, "credit": 5, "currency": "USD"},
    ]
    payload: dict[str, object] = {"reference": reference, "kind": "payout", "entries": entries, "note": None}
    return command(JOURNAL, payload | said, scope=scope, key=reference, aggregate_key=journal_id(reference))


def paid(amount: int = AMOUNT) -> Payment:
    """A purchase that succeeded."""
    return told(after(after(None, create(amount=amount)), confirm()), "captured")


def refunding(amount: int | None = None, payment: Payment | None = None, key: str = "r") -> Payment:
    """A payment with a refund under way."""
    return after(payment or paid(), refund(amount, key=key))


def apply(payment: Payment | None, decision: Decision) -> Payment:
    """The aggregate after a decision; the one before stays as it was."""
    return applied(payment, decision)


def after(payment: Payment | None, step: Command) -> Payment:
    """The aggregate after a command that is not refused."""
    return apply(payment, decided(payment, step))


def decided(payment: Payment | None, step: Command) -> Decision:
    """The decision on a command that is not refused."""
    decision = commands.decide(payment, step, CONTEXT)
    assert isinstance(decision, Decision), decision
    return decision


def refused(payment: Payment | None, step: Command) -> Rejection:
    """The refusal of a command that is not carried out."""
    rejection = commands.decide(payment, step, CONTEXT)
    assert isinstance(rejection, Rejection), rejection
    assert rejection.code != "invalid_command" or rejection.extra["errors"], "a wrong value has its field"
    return rejection


def told(payment: Payment, status: str, **said: object) -> Payment:
    """The aggregate after a fact about its newest attempt."""
    return after(payment, fact(payment, status, **said))


def authorized(amount: int = AMOUNT) -> Payment:
    """Manual capture, money held."""
    return told(after(after(None, create(amount=amount, capture="manual")), confirm()), "authorized")


def in_every_state() -> dict[str, Payment]:
    """One payment per state and per kind of open attempt."""
    unpaid = after(None, create(method=None))
    ready = after(None, create())
    purchasing = after(ready, confirm())
    held = authorized()
    in_state = {
        "requires_payment_method": unpaid,
        "requires_confirmation": ready,
        "processing purchase": purchasing,
        "processing authorize": after(after(None, create(capture="manual")), confirm()),
        "requires_capture": held,
        "processing capture": after(held, capture()),
        "processing void": after(held, cancel()),
        "succeeded": told(purchasing, "captured"),
        "canceled": after(ready, cancel("abandoned")),
    }
    for waiting in ("requires_action", "requires_merchant_action"):
        in_state[waiting] = Payment(intent=structs.replace(ready.intent, state=waiting), attempts={})
    return in_state
