"""How a fact says that two persons vouch for it: by its identity, which names their proposal."""

from __future__ import annotations

from typing import Final

from schemas.records import Command

#: what the id of such a proposal begins with
PREFIX: Final = "ao_"


def vouched_key(operation_id: str, proposal_id: str) -> str:
    """The identity of what an approved proposal says of an attempt: no other door makes such a key."""
    return f"{operation_id}:{proposal_id}"


def proposal_of(command: Command) -> str | None:
    """The id of the proposal that a fact about an attempt says it is of; None of every other one."""
    operation_id, _, proposal = command.idempotency_key.partition(":")
    is_vouched_for = proposal.startswith(PREFIX) and operation_id == command.payload.get("operation_id")
    return proposal if is_vouched_for else None


def is_vouched_for(command: Command) -> bool:
    """Whether a fact about an attempt says that two persons do."""
    return proposal_of(command) is not None
