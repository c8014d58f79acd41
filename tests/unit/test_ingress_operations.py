"""What is told of an accepted command that nobody decided: that it waits, and for whom."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from ingress.commands.accepted import AcceptedRequests, Note
from ingress.commands.operations import OperationLog
from ingress.identity.caller import Caller

CALLER = Caller(principal="m_1", subject="s", scopes=frozenset({"payments:read"}), expires_at=0)
HASH = b"h"
LONG_AGO_US = 1_000_000


class Rows:
    """The tables: parked aggregates, and the decision of each identity. A note is asked of another process."""

    def __init__(self, note: Note, parked: tuple[str, ...], decided: tuple[str, ...]) -> None:
        self.note, self.parked, self.decided = note, parked, decided

    async def rows(self, query: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        if query == "accepted_find":
            return [(self.note.deadline_at, self.note.idempotency_key, self.note.request_hash, self.note.aggregate_key)]
        if query == "aggregate_parked":
            return [(1,)] if parameters["aggregate_key"] in self.parked else []
        if query == "operation_decided_of_key" and parameters["key"] in self.decided:
            body = b'{"code":"state_conflict","detail":"d"}'
            return [(HASH, "refused", body, "create_payment_intent", None)]
        return []


@pytest.mark.parametrize(
    ("aggregate", "deadline_at", "parked", "decided", "told"),
    [
        ("pi_1", 0, (), (), ("pending", None)),
        ("pi_1", 0, ("pi_2",), (), ("pending", None)),
        (None, 0, ("pi_1",), (), ("pending", None)),  # the note of an ingress of an earlier release
        ("pi_1", 0, ("pi_1",), (), ("parked", "parked")),
        ("pi_1", LONG_AGO_US, ("pi_1",), (), ("refused", "deadline_exceeded")),
        ("pi_1", 0, ("pi_1",), ("k",), ("refused", "state_conflict")),  # by another request of the same identity
    ],
)
def test_a_command_that_met_a_parked_object_is_parked_while_the_object_is(
    aggregate: str | None, deadline_at: int, parked: tuple[str, ...], decided: tuple[str, ...], told: tuple[str, str]
) -> None:
    note = Note("m_1", "r_1", deadline_at, "k", HASH, aggregate)
    store: Any = Rows(note, parked, decided)
    operations = OperationLog(store, AcceptedRequests(store), None)  # type: ignore[arg-type] # nothing is shown
    found = msgspec.json.decode(asyncio.run(operations.find(CALLER, "r_1", "m_1")))
    assert (found["status"], found.get("problem", {}).get("code")) == told
