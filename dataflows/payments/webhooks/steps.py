"""What happens next with one event, given what can be seen of payments and decisions. Pure.

Rule: a fact is told only once its attempt can be seen. An owner remembers every answer for ever, "not found" too, under
the identity that the fact shares with all its doors: told too early, it would never be applied.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct, field, structs

from dataflows.payments.webhooks import commands, vocabulary
from dataflows.payments.webhooks.findings import AttemptOutcome, DisputeChange, Finding, Nothing, Unknown, Unreadable
from schemas import identity
from schemas.payments import facts, limits
from schemas.records import Command

_SUCCESS_OF_CHARGE: Final = {"authorize": "authorized", "purchase": "captured"}
_SETTLED_BY_OTHERS: Final = "stale_fact"
_CONTRADICTS: Final = "contradicts_"  # the beginning of the code of such a refusal
_TOO_EARLY: Final = "not_found"
_TOLD_AS: Final = "told as "
_NOT_OURS: Final = "no object of ours"


class Due(Struct, frozen=True, kw_only=True):
    """One row of the inbox, claimed for this round."""

    processor: str
    provider_event_id: str
    event_type: str
    body: bytes
    tries: int
    note: str | None
    age_s: float


class AttemptSeen(Struct, frozen=True, kw_only=True):
    """An attempt as committed."""

    operation_id: str
    kind: str
    status: str
    processor: str


class IntentSeen(Struct, frozen=True, kw_only=True):
    """An intent as committed."""

    processor: str
    amount_received: int


class Seen(Struct):
    """Everything that was looked up for a round. A decision is the code of its refusal, None when it was committed."""

    intents: dict[str, IntentSeen] = field(default_factory=dict)
    attempts: dict[tuple[str, int], AttemptSeen] = field(default_factory=dict)
    decisions: dict[tuple[str, str], str | None] = field(default_factory=dict)


class Case(Struct, frozen=True, kw_only=True):
    """What a person has to look at."""

    kind: str
    reference: str


class Step(Struct, frozen=True, kw_only=True):
    """The state that the row gets. With a command, only once that is durable in Kafka."""

    state: str
    note: str
    command: Command | None = None
    case: Case | None = None


def next_step(due: Due, found: Finding, seen: Seen, issued_at: int) -> Step:
    """The step of one event; ``issued_at`` in microseconds. The same event again and again ends in the same state."""
    match found:
        case Nothing(why):
            return Step(state="superseded", note=why)
        case Unknown(reference):
            return _case("unknown_reference", reference, _NOT_OURS)
        case Unreadable(why):
            return _case("unreadable_event", f"{due.processor}:{due.provider_event_id}", why)
        case AttemptOutcome():
            return _outcome(due, found, seen, issued_at)
        case DisputeChange():
            return _dispute(due, found, seen, issued_at)


def _outcome(due: Due, found: AttemptOutcome, seen: Seen, issued_at: int) -> Step:
    intent_id, number = identity.place_of_operation(found.operation_id) or ("", 0)
    attempt = seen.attempts.get((intent_id, number))
    if attempt is None or attempt.operation_id != found.operation_id:
        return _unseen(due, intent_id, found.operation_id, "the attempt cannot be seen yet")
    if attempt.processor != due.processor:
        return _case("unknown_reference", found.operation_id, f"an attempt at {attempt.processor}")
    if found.only_kind not in (None, attempt.kind):
        return Step(state="superseded", note=f"says nothing about a {attempt.kind}")
    if found.status == "charged":
        found = structs.replace(found, status=_SUCCESS_OF_CHARGE.get(attempt.kind, "captured"))
    payload = vocabulary.outcome_payload(found, number)
    keys = _outcome_keys(due, found, attempt)
    return _decided_or_told(
        due, seen, keys, "record_attempt_outcome", intent_id, payload, found.operation_id, issued_at
    )


def _outcome_keys(due: Due, found: AttemptOutcome, attempt: AttemptSeen) -> list[str]:
    """The identity to tell the fact under, last; before it, one that may have been decided earlier."""
    if due.note is not None and due.note.startswith(_TOLD_AS):
        return [due.note.removeprefix(_TOLD_AS)]  # one event is one fact, whatever came of the attempt since
    if found.status == "pending":
        return [facts.pending_key(found.operation_id, found.pending_reason)]
    key = facts.outcome_key(found.operation_id, found.status)
    if attempt.kind != "refund" or found.status != "failed":
        return [key]
    later = facts.outcome_key(found.operation_id, facts.FAILED_LATER)
    # A refund that failed after it had succeeded is another fact than one that never succeeded: whichever of success
    # and failure is heard of first, the failure is the end.
    return [later] if found.after_success or attempt.status == "refunded" else [later, key]


def _dispute(due: Due, found: DisputeChange, seen: Seen, issued_at: int) -> Step:
    intent = seen.intents.get(found.intent_id)
    if intent is None:
        reference = found.intent_id or found.charge_ref or found.provider_ref
        return _unseen(due, found.intent_id, reference, "the payment cannot be seen yet")
    served_by = {a.processor for (name, _), a in seen.attempts.items() if name == found.intent_id} or {intent.processor}
    if due.processor not in served_by:
        return _case("unknown_reference", found.intent_id, f"a payment at {', '.join(sorted(served_by))}")
    if not intent.amount_received:
        return _wait(due, found.intent_id, "no money was taken yet that could be disputed")
    keys = [commands.dispute_key(found)]
    payload = vocabulary.dispute_payload(found)
    return _decided_or_told(due, seen, keys, "record_dispute", found.intent_id, payload, found.provider_ref, issued_at)


def _decided_or_told(
    due: Due,
    seen: Seen,
    keys: list[str],
    operation: str,
    intent_id: str,
    payload: dict[str, Any],
    reference: str,
    issued_at: int,
) -> Step:
    scope = facts.processor_scope(due.processor)
    for key in keys:
        if (scope, key) in seen.decisions:
            return _decided(due, seen.decisions[scope, key], reference)
    command = commands.command_of(
        operation, due.processor, keys[-1], intent_id, payload, due.provider_event_id, issued_at
    )
    # The owner is away, or its aggregate waits for an operator: somebody should know, and the fact goes on being told.
    late = Case(kind="undecided_fact", reference=reference) if due.tries > limits.WEBHOOK_UNDECIDED_TRIES_MAX else None
    return Step(state="stored", note=_TOLD_AS + keys[-1], command=command, case=late)


def _decided(due: Due, refusal: str | None, reference: str) -> Step:
    if refusal is None:
        return Step(state="applied", note="committed")
    if refusal == _SETTLED_BY_OTHERS:
        return Step(state="superseded", note=refusal)
    if refusal.startswith(_CONTRADICTS):
        return Step(state="case", note=refusal)  # the owner opened it with the refusal, in one commit
    if refusal == _TOO_EARLY:
        return _wait(due, reference, "the owner does not know it")
    return _case(refusal, reference, "refused by the owner")


def _unseen(due: Due, intent_id: str, reference: str, why: str) -> Step:
    """An attempt is durable before its processor hears of it: an id of another form than we derive is nobody's then."""
    if intent_id and not identity.is_derived(intent_id):
        return _case("unknown_reference", reference, _NOT_OURS)
    return _wait(due, reference, why)


def _wait(due: Due, reference: str, why: str) -> Step:
    if due.age_s > limits.WEBHOOK_PARKED_MAX_S:
        return _case("unknown_reference", reference, why)
    return Step(state="parked", note=why)


def _case(kind: str, reference: str, note: str) -> Step:
    return Step(state="case", note=note, case=Case(kind=kind, reference=reference))
