"""Outcomes of attempts as two persons have approved them: what the owner looks up before it believes one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg
from psycopg.types.json import Json

from schemas.payments import vouched

if TYPE_CHECKING:
    from collections.abc import Iterable

    from schemas.records import Command

_FACT: Final = ("status", "provider_ref", "amount", "currency", "error_code")
_APPROVED: Final = """
with opened as (
    insert into repair_case (id, kind, reference) values (%(case)s, 'planted', %(case)s) on conflict do nothing
)
insert into attempt_outcome_proposal (id, case_id, operation_id, intent_id, attempt, processor, fact, note, author,
                                      request_hash, state, decided_by, decided_at)
values (%(id)s, %(case)s, %(operation)s, %(intent)s, %(attempt)s, %(processor)s, %(fact)s, 'n', 'a', '', 'approved', 'b', now())
on conflict do nothing
"""


def approve(superuser_dsn: str, commands: Iterable[Command | None]) -> None:
    """Approves what is said in the name of two persons among these, as it is said."""
    with psycopg.connect(superuser_dsn, autocommit=True) as connection:
        for command in commands:
            proposal = None if command is None else vouched.proposal_of(command)
            if command is not None and proposal is not None:
                said = command.payload
                connection.execute(
                    _APPROVED,
                    {
                        "id": proposal,
                        "case": f"case_{proposal}",
                        "operation": said["operation_id"],
                        "intent": command.aggregate_key,
                        "attempt": said["attempt"],
                        "processor": command.scope.partition(":")[2],
                        "fact": Json({name: said[name] for name in _FACT}),
                    },
                )
