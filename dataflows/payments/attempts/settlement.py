"""What an answer leads to: the fact that is told, and what is recorded once that fact is durable. Pure.

Rule (spec 1 section 3): after an unknown outcome the operation is queried or retried with the same identity; no second
business effect. So nothing here ever makes another attempt, and "failed" is only what the processor said. An attempt
that never left us is given up in the table, durably, before anybody is told: see ``attempts_give_up``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dataflows.payments.attempts import schedule
from dataflows.payments.attempts.adapter import (
    Answer,
    Definitive,
    NotExecuted,
    NotSent,
    Pending,
    RequiresAction,
    Unknown,
)
from dataflows.payments.attempts.facts import Fact
from schemas.payments import limits

if TYPE_CHECKING:
    from dataflows.payments.attempts.dispatch import AttemptLease


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchRecord:
    """The new state of a dispatch row: its fact is told (``reported``), it is due again, or still a person's."""

    operation_id: str
    send_count: int  # the lease that it is about: a later one's row is not touched
    status: Literal["reported", "waiting", "review"]
    delay_ms: int
    in_doubt: bool = True
    unknowns: int = 0
    outcome: str | None = None
    provider_ref: str | None = None
    amount: int | None = None
    currency: str | None = None
    error_code: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptSettlement:
    """``fact`` must be durable in Kafka before ``record`` is written; None tells nothing."""

    fact: Fact | None
    record: DispatchRecord


def settle(lease: AttemptLease, answer: Answer, now: float, jitter: float) -> AttemptSettlement:
    """What to tell and to record after a turn. ``now`` by the lease's monotonic clock, ``jitter`` from 0 to 1."""
    match answer:
        case Definitive():
            return _told(lease, answer.status, answer)
        case _ if lease.only_asked:
            return _still_a_persons(lease, answer)
        case Pending(provider_ref, pending_reason):
            return _open(lease, "pending", "pending", now, provider_ref, pending_reason)
        case RequiresAction():
            return _waits_for_payer(lease, answer, now)
        case Unknown(reason):
            return _open(lease, "unknown", reason, now)
        case NotSent() | NotExecuted():
            return _not_executed(lease, answer, now, jitter)


def _open(
    lease: AttemptLease,
    status: str,
    reason: str,
    now: float,
    provider_ref: str | None = None,
    pending_reason: str | None = None,
) -> AttemptSettlement:
    delay_ms = schedule.poll_delay_ms(lease.unknown_count)
    if delay_ms is None or _age_s(lease, now) > schedule.DOUBT_MAX_S:
        return _given_to_a_person(lease, reason)
    error_code = reason if status == "unknown" else None
    record = DispatchRecord(
        operation_id=lease.call.operation_id,
        send_count=lease.send_count,
        status="waiting",
        delay_ms=delay_ms,
        unknowns=1,
        outcome=status,
        provider_ref=provider_ref,
        error_code=error_code,
    )
    fact = _fact(lease, status, error_code=error_code, provider_ref=provider_ref, pending_reason=pending_reason)
    return AttemptSettlement(fact, record)


def _waits_for_payer(lease: AttemptLease, answer: RequiresAction, now: float) -> AttemptSettlement:
    """One fact, however often it is asked; processor or adapter ends the wait, and where none does a person looks."""
    if _age_s(lease, now) > limits.ATTEMPT_ACTION_MAX_S:
        return _given_to_a_person(lease, "requires_action")
    record = DispatchRecord(
        operation_id=lease.call.operation_id,
        send_count=lease.send_count,
        status="waiting",
        delay_ms=schedule.action_delay_ms(),
        outcome="requires_action",
        provider_ref=answer.provider_ref,
    )
    fact = _fact(lease, "requires_action", provider_ref=answer.provider_ref, waits=answer)
    return AttemptSettlement(fact, record)


def _not_executed(lease: AttemptLease, answer: NotSent | NotExecuted, now: float, jitter: float) -> AttemptSettlement:
    reason = answer.reason
    if isinstance(answer, NotExecuted) and answer.is_for_good:
        # The card may have been deleted after a send that was executed all the same: only a first one has failed.
        return _open(lease, "unknown", reason, now) if lease.in_doubt else _told(lease, "failed", error_code=reason)
    if lease.in_doubt and _age_s(lease, now) > schedule.DOUBT_MAX_S:
        return _given_to_a_person(lease, reason)
    record = DispatchRecord(
        operation_id=lease.call.operation_id,
        send_count=lease.send_count,
        status="waiting",
        delay_ms=schedule.retry_delay_ms(lease.send_count, jitter),
        # An earlier send may still be under way whatever a later query said: doubt ends with a definitive answer only.
        in_doubt=lease.in_doubt,
        error_code=reason,
    )
    return AttemptSettlement(None, record)


def _given_to_a_person(lease: AttemptLease, reason: str) -> AttemptSettlement:
    return _told(lease, "manual_review", error_code=f"unresolved:{reason}")


def _still_a_persons(lease: AttemptLease, answer: Answer) -> AttemptSettlement:
    """The owner knows that a person has it: there is no fact in an answer that settles nothing."""
    said = answer.reason if isinstance(answer, NotSent | NotExecuted | Unknown) else type(answer).__name__
    record = DispatchRecord(
        operation_id=lease.call.operation_id,
        send_count=lease.send_count,
        status="review",
        delay_ms=0,
        error_code=f"asked:{said}",
    )
    return AttemptSettlement(None, record)


def _told(
    lease: AttemptLease, status: str, answer: Definitive | None = None, error_code: str | None = None
) -> AttemptSettlement:
    fact = _fact(lease, status, answer, error_code)
    record = DispatchRecord(
        operation_id=fact.operation_id,
        send_count=fact.send_count,
        status="reported",
        delay_ms=schedule.confirm_delay_ms(),
        outcome=status,
        provider_ref=fact.provider_ref,
        amount=fact.amount,
        currency=fact.currency,
        error_code=fact.error_code,
    )
    return AttemptSettlement(fact, record)


def _fact(
    lease: AttemptLease,
    status: str,
    answer: Definitive | None = None,
    error_code: str | None = None,
    provider_ref: str | None = None,
    waits: RequiresAction | None = None,
    pending_reason: str | None = None,
) -> Fact:
    return Fact(
        operation_id=lease.call.operation_id,
        intent_id=lease.call.intent_id,
        attempt=lease.attempt,
        processor=lease.processor,
        trace_id=lease.trace_id,
        send_count=lease.send_count,
        status=status,
        provider_ref=answer.provider_ref if answer else provider_ref,
        amount=answer.amount if answer else None,
        currency=answer.currency if answer else None,
        error_code=answer.error_code if answer else error_code,
        authorized_until=answer.authorized_until if answer else None,
        redirect_url=waits.redirect_url if waits else None,
        next_action=waits.action if waits else None,
        pending_reason=pending_reason,
    )


def _age_s(lease: AttemptLease, now: float) -> float:
    return now - lease.first_at
