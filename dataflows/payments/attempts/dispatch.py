"""The rows of ``attempt_dispatch`` as they travel: what an event asks for, what a lease gives, what is recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from dataflows.payments.attempts.adapter import CHARGES, DEFINITIVE_STATUSES, FOR_PAYER, Call

if TYPE_CHECKING:
    from collections.abc import Iterable

    from schemas.records import Event

# What the owner's event means for us; later in this order wins when one batch holds several events of an attempt.
Wish = Literal["carry_out", "review", "done"]
_ATTEMPTS: Final = ("caused_by", "processor_attempt")  # the fields of an event's body that hold one
_RANK: Final[dict[Wish, int]] = {"carry_out": 0, "review": 1, "done": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one batch of events says about one attempt."""

    call: Call
    attempt: int
    processor: str
    trace_id: str
    wish: Wish
    outcome: str | None  # the status that the owner settled on; None while there is none
    provider_ref: str | None
    error_code: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLease:
    """The right to call the processor for one attempt until ``ends_at`` (this process's monotonic clock)."""

    call: Call
    attempt: int
    processor: str
    trace_id: str
    send_count: int
    unknown_count: int
    in_doubt: bool  # before this lease: an earlier send may have reached the processor
    first_at: float  # by this process's monotonic clock, from the age that the database tells; never later than it was
    ends_at: float  # by the same clock, no later than by the database's
    only_asked: bool = False  # a person has it: the processor is asked about it, and nothing is sent
    is_unwanted: bool = False  # a charge of a payment that was canceled meanwhile: nobody waits for its payer


class Due(NamedTuple):
    """What waits in the table now."""

    processors: frozenset[str]  # that have attempts to be carried out
    has_late_facts: bool  # of which no event came back in time


def changes_of(event: Event) -> list[Change]:
    """What an event means for the workers: nothing where it is about no attempt, or about an outcome still open.

    One commit may change two: a late capture of a canceled payment, and the refund that it makes.
    """
    attempts: list[dict[str, Any] | None] = [event.body.get(name) for name in _ATTEMPTS]  # type: ignore[misc] # schema
    changes = [_change_of(event, attempt) for attempt in attempts if attempt is not None]
    return [change for change in changes if change is not None]


def _change_of(event: Event, attempt: dict[str, Any]) -> Change | None:
    status = attempt["status"]
    if status == "created":
        wish: Wish = "carry_out"
    elif status in DEFINITIVE_STATUSES:
        wish = "done"
    elif status == "manual_review":
        wish = "review"
    else:
        return None
    return Change(
        call=Call(
            operation_id=attempt["operation_id"],
            intent_id=attempt["intent_id"],
            merchant_id=event.scope,
            kind=attempt["kind"],
            amount=attempt["amount"],
            currency=attempt["currency"],
            payment_method=attempt["payment_method"],
            parent_ref=attempt["parent_ref"],
            final=attempt["final"],
            evidence=_evidence_of(event, attempt),
            for_payer=_for_payer(event, attempt),
        ),
        attempt=attempt["attempt"],
        processor=attempt["processor"],
        trace_id=event.trace_id,
        wish=wish,
        outcome=None if wish == "carry_out" else status,
        provider_ref=attempt["provider_ref"],
        error_code=attempt["error_code"],
    )


def _evidence_of(event: Event, attempt: dict[str, Any]) -> dict[str, str] | None:
    dispute: Any = event.body.get("dispute") if attempt["kind"] == "evidence" else None
    return None if dispute is None else dispute["evidence"]


def _for_payer(event: Event, attempt: dict[str, Any]) -> dict[str, str]:
    intent: Any = event.body.get("payment_intent") if attempt["kind"] in CHARGES else None
    return {} if intent is None else {name: text for name in FOR_PAYER if (text := intent.get(name)) is not None}


def fold(changes: Iterable[Change]) -> list[Change]:
    """One change per attempt, the furthest one, sorted by operation_id: two workers then lock rows in one order."""
    furthest: dict[str, Change] = {}
    for change in changes:
        known = furthest.setdefault(change.call.operation_id, change)
        if _RANK[change.wish] > _RANK[known.wish]:
            furthest[change.call.operation_id] = change
    return [furthest[operation_id] for operation_id in sorted(furthest)]
