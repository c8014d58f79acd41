"""Commands that two persons approved: carried out as the database has them in the commit, or not at all."""

from __future__ import annotations

from typing import Final

from schemas.records import Command, Denial

#: this refusal is not stored: the same command may still be approved
NOT_APPROVED: Final = Denial("state_conflict", "No approved proposal says this.", {"current_state": "not_approved"})


def is_approved(command: Command, approved: Command | None) -> bool:
    """Whether this is the command of an approved proposal, by content, not by the hash that the record claims.

    ``approved`` is the command of the proposal that this one names, as the database has it; None if it has none.
    """
    if approved is None:
        return False
    said = all(command.payload[name] == value for name, value in approved.payload.items())
    return said and (command.aggregate_key, command.scope, command.idempotency_key) == (
        approved.aggregate_key,
        approved.scope,
        approved.idempotency_key,
    )
