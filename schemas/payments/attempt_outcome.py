"""The outcome of an attempt as two persons state it, and the fact that their approval becomes.

An approved outcome has a key of its own, because the processor's may already belong to a fact that the owner could
not apply (another amount). It has no second effect: the attempt's postings are unique by their reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from schemas.fields import validation
from schemas.fields import value_types as types
from schemas.fields.validation import Field
from schemas.operators import decision_note
from schemas.payments import facts, payloads, vouched
from schemas.records import Command

_OPERATION: Final = "record_attempt_outcome"
STATUSES: Final = ("authorized", "captured", "voided", "refunded", "submitted", "declined", "failed")
OUTCOME: Final[validation.Fields] = {
    "status": Field(types.choice(*STATUSES), "what the processor did"),
    "amount": Field(types.AMOUNT, "of a success: what was asked for", None, nullable=True),
    "currency": Field(types.CURRENCY, "of a success: ISO 4217", None, nullable=True),
    "provider_ref": payloads.ATTEMPT_OUTCOME["provider_ref"],
    "error_code": payloads.ATTEMPT_OUTCOME["error_code"],
    "note": decision_note.REQUIRED["note"],  # the evidence
}
ASK: Final[validation.Fields] = {"note": decision_note.OPTIONAL["note"]}


def proposals_named(commands: Sequence[Command]) -> list[str]:
    """The ids of the proposals that facts about attempts among these say they are of."""
    facts_told = (c for c in commands if c.operation == _OPERATION)
    return [proposal for c in facts_told if (proposal := vouched.proposal_of(c)) is not None]


def command_of(
    proposal_id: str,
    operation_id: str,
    intent_id: str,
    attempt: int,
    processor: str,
    fact: dict[str, Any],
    issued_at: int,
) -> Command:
    """The command of an approved outcome: the same identity and hash whoever sends it, whenever (microseconds)."""
    scope, key = facts.processor_scope(processor), vouched.vouched_key(operation_id, proposal_id)
    said = {name: fact[name] for name in ("status", "provider_ref", "amount", "currency", "error_code")}
    return facts.fact_command(
        _OPERATION,
        scope=scope,
        key=key,
        aggregate_key=intent_id,
        payload={
            "operation_id": operation_id,
            "attempt": attempt,
            **said,
            "redirect_url": None,
            "authorized_until": None,
            "pending_reason": None,
        },
        trace_id=facts.trace_of(scope, key),
        issued_at=issued_at,
    )
