"""What two persons approved is carried out as the database has it in the commit, or not at all."""

from __future__ import annotations

from typing import Final

from schemas.records import Command, Denial

#: not stored: the same may be approved yet
NOT_APPROVED: Final = Denial("state_conflict", "No approved proposal says this.", {"current_state": "not_approved"})


def is_approved(command: Command, approved: Command | None) -> bool:
    """Whether it is the command of an approved proposal: by content, not by the hash that the record claims to have.

    ``approved`` is what the database makes of the proposal that the command names; None where it has none.
    """
    if approved is None:
        return False
    said = all(command.payload[name] == value for name, value in approved.payload.items())
    return said and (command.aggregate_key, command.scope, command.idempotency_key) == (
        approved.aggregate_key,
        approved.scope,
        approved.idempotency_key,
    )
