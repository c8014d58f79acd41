"""Facts: what came of an attempt, as a command to the owner of its intent.

A fact's identity is made of the operation and its status, so the same fact told twice, by whichever worker or door,
is one command. Only what is not definitive also carries the number of the send: each doubt is a fact of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dataflows.payments.attempts.adapter import DEFINITIVE_STATUSES
from schemas.avro import codec
from schemas.payments import facts
from schemas.payments.facts import FAILED_LATER
from schemas.records import Command

#: one fact of each of these per attempt, for ever
_ONCE: Final = DEFINITIVE_STATUSES | {FAILED_LATER, "manual_review", "requires_action"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """What is told to the owner. Amount and currency as the processor echoed them: the owner judges a mismatch."""

    operation_id: str
    intent_id: str
    attempt: int
    processor: str
    trace_id: str
    send_count: int
    status: str
    provider_ref: str | None
    amount: int | None
    currency: str | None
    error_code: str | None
    redirect_url: str | None = None  # where the payer has to go; only with requires_action
    authorized_until: int | None = None  # when a hold ends, as the processor says
    next_action: str | None = None  # what the payer has to do, when that is more than to go there
    pending_reason: str | None = None  # why a refund is pending, as the processor says


def command_of(fact: Fact, issued_at: int) -> Command:
    """The command of a fact; equal facts have equal identity and hash, whenever they are issued (microseconds)."""
    key = facts.outcome_key(fact.operation_id, fact.status)
    if fact.status not in _ONCE:
        key = f"{key}:{fact.send_count}"
    payload: dict[str, object] = {
        "operation_id": fact.operation_id,
        "attempt": fact.attempt,
        "status": "failed" if fact.status == FAILED_LATER else fact.status,
        "provider_ref": fact.provider_ref,
        "amount": fact.amount,
        "currency": fact.currency,
        "error_code": fact.error_code,
        "redirect_url": fact.redirect_url,
        "authorized_until": fact.authorized_until,
        "pending_reason": fact.pending_reason,
        "next_action": fact.next_action,
    }
    return facts.fact_command(
        "record_attempt_outcome",
        scope=facts.processor_scope(fact.processor),
        key=key,
        aggregate_key=fact.intent_id,
        payload=payload,
        trace_id=fact.trace_id,
        issued_at=issued_at,
    )


def encode(fact: Fact, issued_at: int) -> bytes:
    """The fact as it lies in the command topic."""
    return codec.encode_command(command_of(fact, issued_at))
