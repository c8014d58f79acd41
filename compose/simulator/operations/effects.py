"""What an operation does to the book: pure rules of authorizations, captures, voids and refunds.

An authorization's hold is used up by captures and releases, never past its amount; a final capture releases
the rest. What was captured is given back by refunds and disputes, never past its amount. ``failed`` means proved
not executed: nothing moved and nothing will under this identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compose.simulator.operations.modes import Mode
    from compose.simulator.operations.nouns import Capture, Hold, OperationBody, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The outcome, and by how much the parent's hold is used up."""

    status: Status
    amount: int
    decline_code: str | None = None
    captured: int = 0
    released: int = 0
    refunded: int = 0


def decide_effect(body: OperationBody, mode: Mode, hold: Hold | None, capture: Capture | None) -> Effect:
    """The one effect of a new operation; ``hold`` or ``capture`` is its parent's, None when there is none."""
    match body.kind:
        case "authorize" | "purchase":
            return _decide_new_money(body, mode)
        case "capture":
            return _decide_capture(body, mode, hold)
        case "void":
            return _decide_void(body, hold)
        case "refund":
            return _decide_refund(body, mode, capture)
        case "increment":
            return _decide_increment(body, mode, hold)
        case "evidence":
            return Effect(status="failed", amount=body.amount, decline_code="unknown_dispute")


def _decide_new_money(body: OperationBody, mode: Mode) -> Effect:
    if mode.decline_code is not None:
        return Effect(status="declined", amount=body.amount, decline_code=mode.decline_code)
    status: Status = "authorized" if body.kind == "authorize" else "captured"
    return Effect(status=status, amount=body.amount + mode.surplus_minor)


def _decide_capture(body: OperationBody, mode: Mode, hold: Hold | None) -> Effect:
    amount = body.amount + mode.surplus_minor
    problem = _problem_with(body, hold)
    if hold is None or problem is not None:
        return Effect(status="failed", amount=body.amount, decline_code=problem)
    if amount > hold.remainder:
        return Effect(status="failed", amount=body.amount, decline_code="amount_exceeds_remainder")
    released = hold.remainder - amount if body.final else 0
    return Effect(status="captured", amount=amount, captured=amount, released=released)


def _decide_void(body: OperationBody, hold: Hold | None) -> Effect:
    problem = _problem_with(body, hold)
    if hold is None or problem is not None:
        return Effect(status="failed", amount=body.amount, decline_code=problem)
    # What is released is what was left, whatever the caller believed: the answer says it.
    return Effect(status="voided", amount=hold.remainder, released=hold.remainder)


def _decide_increment(body: OperationBody, mode: Mode, hold: Hold | None) -> Effect:
    problem = _problem_with(body, hold)
    if problem is not None:
        return Effect(status="failed", amount=body.amount, decline_code=problem)
    if mode.increment_decline_code is not None:
        return Effect(status="declined", amount=body.amount, decline_code=mode.increment_decline_code)
    return Effect(status="authorized", amount=body.amount + mode.surplus_minor)


def _decide_refund(body: OperationBody, mode: Mode, capture: Capture | None) -> Effect:
    if capture is None:
        return Effect(status="failed", amount=body.amount, decline_code="unknown_capture")
    if body.reference != capture.reference:
        return Effect(status="failed", amount=body.amount, decline_code="reference_mismatch")
    if body.currency != capture.currency:
        return Effect(status="failed", amount=body.amount, decline_code="currency_mismatch")
    amount = body.amount + mode.surplus_minor
    if amount > capture.amount - capture.refunded:
        return Effect(status="declined", amount=body.amount, decline_code="amount_exceeds_refundable")
    if amount > capture.remainder:  # the bank has taken it back already: nobody is paid twice
        return Effect(status="declined", amount=body.amount, decline_code="charge_disputed")
    return Effect(status="refunded", amount=amount, refunded=amount)


def _problem_with(body: OperationBody, hold: Hold | None) -> str | None:
    if hold is None:
        return "unknown_authorization"
    if body.reference != hold.reference:
        return "reference_mismatch"
    if body.currency != hold.currency:
        return "currency_mismatch"
    if hold.remainder == 0:
        return "authorization_closed"
    return None
