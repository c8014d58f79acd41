"""A merchant's evidence against a dispute: a draft that grows, and one submission that a processor gets once.

The submission is an attempt of kind ``evidence``: durable before it is sent, and tried until the processor takes or
refuses it. If it is refused, the draft stays for another try. Each is carried with the payment, so they are bounded for
each dispute: a payment that has had all other attempts that it may have is defended all the same. Facts of the dispute
tell what became of it.
Source: reference feature table, disputes with evidence.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from dataflows.payments.domain.decision import Context, Decision, Payment
from dataflows.payments.domain.dispute import RESPONSE_DUE
from dataflows.payments.domain.fact import OPEN, REFUSED, SUCCESS, UNDECIDED, changed, stale, undecided
from dataflows.payments.domain.payment_intent import advance, new_attempt
from schemas.payments import limits
from schemas.payments.records import Dispute, ProcessorAttempt
from schemas.records import Command, Rejection
from schemas.refusals import wrong_value


def decide_evidence(payment: Payment, command: Command, context: Context) -> Decision | Rejection:
    """Adds to the draft; with ``submit`` also starts the attempt that sends all of it."""
    told: dict[str, Any] = command.payload
    dispute = payment.disputes.get(told["dispute"])
    if dispute is None:
        return Rejection("not_found", "No such object.", {})
    refusal = _refusal(payment, dispute)
    if refusal is not None:
        return refusal
    evidence = {**(dispute.evidence or {}), **told["evidence"]}
    if not evidence or len(evidence) > limits.EVIDENCE_KINDS_MAX:
        return wrong_value("payload.evidence", f"must come to 1 to {limits.EVIDENCE_KINDS_MAX} kinds with the draft")
    sent = sum(_is_about(a, dispute) for a in payment.attempts.values())
    if told["submit"] and sent >= (most := limits.EVIDENCE_SUBMISSIONS_MAX):
        return Rejection("too_many_attempts", f"Evidence about a dispute is sent {most} times at most.", {"most": most})
    intent = advance(payment.intent, context)
    draft = structs.replace(
        dispute, evidence=evidence, evidence_state="draft", version=dispute.version + 1, updated_at=context.now
    )
    if not told["submit"]:
        return Decision(intent=intent, dispute=draft)
    attempt = structs.replace(
        new_attempt(intent, context, "evidence", dispute.amount, parent=None, final=True),
        processor=dispute.processor,
        parent_ref=dispute.provider_ref,
    )
    intent.latest_attempt = attempt.attempt
    return Decision(intent=intent, attempt=attempt, dispute=draft)


def decide_outcome(
    payment: Payment, attempt: ProcessorAttempt, command: Command, context: Context
) -> Decision | Rejection:
    """The state after a fact about a submission. No money moves by it."""
    fact: dict[str, Any] = command.payload
    status: str = fact["status"]
    if attempt.status not in OPEN or (status not in UNDECIDED | REFUSED and status != SUCCESS["evidence"]):
        return stale(attempt)
    if status in UNDECIDED:
        return undecided(payment, attempt, fact, context)
    code = (fact["error_code"] or status) if status in REFUSED else None
    after = changed(attempt, context, status=status, error_code=code, provider_ref=fact["provider_ref"])
    intent = advance(payment.intent, context)
    if status in REFUSED:
        return Decision(intent=intent, attempt=after)
    dispute = next(d for d in payment.disputes.values() if _is_about(attempt, d))
    submitted = structs.replace(
        dispute, evidence_state="submitted", version=dispute.version + 1, updated_at=context.now
    )
    return Decision(intent=intent, attempt=after, dispute=submitted)


def _refusal(payment: Payment, dispute: Dispute) -> Rejection | None:
    state: dict[str, object] = {"current_state": dispute.state, "current_version": dispute.version}
    if dispute.state not in RESPONSE_DUE:
        return Rejection("state_conflict", f"A dispute that is {dispute.state} takes no evidence.", state)
    if dispute.evidence_state == "submitted":
        return Rejection("state_conflict", "The evidence of this dispute was submitted.", state)
    if any(_is_about(a, dispute) and a.status in OPEN for a in payment.attempts.values()):
        return Rejection("state_conflict", "The evidence of this dispute is on its way.", state)
    return None


def _is_about(attempt: ProcessorAttempt, dispute: Dispute) -> bool:
    is_evidence = attempt.kind == "evidence" and attempt.processor == dispute.processor
    return is_evidence and attempt.parent_ref == dispute.provider_ref
