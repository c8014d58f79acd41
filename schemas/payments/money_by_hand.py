"""What persons move by hand on a merchant's account, and the one command that an approved proposal becomes."""

from __future__ import annotations

from typing import Any, Final

from schemas import identity
from schemas.identity import OPERATOR_SCOPE
from schemas.operation import Named
from schemas.payments import facts
from schemas.payments.operations import OPERATIONS
from schemas.records import Command

#: one person proposes these, another approves
BY_HAND: Final = frozenset(
    {"convert_currency", "hold_reserve", "release_reserve", "record_payout_outcome", "allow_payout_destination"}
)
#: in whose name they are carried out; the identity is the proposal's id
SCOPE: Final = f"{OPERATOR_SCOPE}approved"
PREFIX: Final = "mp"


def needs_approval(command: Command) -> bool:
    """Whether it is by hand: what a bank's statement says of a payout is not."""
    return command.operation in BY_HAND and command.scope.startswith(OPERATOR_SCOPE)


def proposal_id(author: str, operation: str, object_id: str, key: str) -> str:
    """The identity of a proposal: a retry of its author finds it again."""
    return identity.derived_id(PREFIX, author, f"{operation} {object_id}", key)


def command_of(id_: str, operation: str, object_id: str, payload: dict[str, Any], issued_at: int) -> Command:
    """The command of an approved proposal: the same whoever sends it, whenever (microseconds)."""
    named = Named(path_id=object_id, payload=payload, scope=SCOPE, idempotency_key=id_)
    return facts.fact_command(
        operation,
        scope=SCOPE,
        key=id_,
        aggregate_key=OPERATIONS[operation].aggregate_key(named),
        payload=payload,
        trace_id=facts.trace_of(SCOPE, id_),
        issued_at=issued_at,
    )
