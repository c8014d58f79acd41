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
    """The tables: parked aggregates, the decision of each identity, and how far an owner has read.

    A note is asked of another process.
    """

    def __init__(self, note: Note, parked: tuple[str, ...], decided: tuple[str, ...], read_to: int = 0) -> None:
        self.note, self.parked, self.decided, self.read_to = note, parked, decided, read_to

    async def rows(self, query: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        if query == "accepted_find":
            n = self.note
            place = n.place or (None, None, None)
            return [(n.deadline_at, n.idempotency_key, n.request_hash, n.aggregate_key, *place)]
        if query == "command_passed":
            asked = [parameters[name] for name in ("topic", "partition", "merchant", "key", "request_id")]
            assert asked == ["commands.payments.v1", 3, "m_1", "k", "r_1"]
            return [(1,)] if self.read_to > parameters["offset"] else []
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


@pytest.mark.parametrize(
    ("place", "read_to", "parked", "decided", "told"),
    [
        (("commands.payments.v1", 3, 7), 7, (), (), ("pending", None)),
        (("commands.payments.v1", 3, 7), 8, (), (), ("refused", "parked")),  # nobody decides it any more
        (None, 8, (), (), ("pending", None)),  # Kafka had not said where it lies, or an earlier release had not kept it
        (("commands.payments.v1", 3, 7), 8, ("pi_1",), (), ("parked", "parked")),
        (("commands.payments.v1", 3, 7), 8, (), ("k",), ("refused", "state_conflict")),
    ],
)
def test_a_command_that_its_owner_has_passed_over_is_not_pending_for_ever(
    place: tuple[str, int, int] | None,
    read_to: int,
    parked: tuple[str, ...],
    decided: tuple[str, ...],
    told: tuple[str, str],
) -> None:
    """Its object was parked and is not any more: nothing was stored of it, and nothing comes of it."""
    note = Note("m_1", "r_1", 0, "k", HASH, "pi_1", place)
    store: Any = Rows(note, parked, decided, read_to)
    operations = OperationLog(store, AcceptedRequests(store), None)  # type: ignore[arg-type] # nothing is shown
    found = msgspec.json.decode(asyncio.run(operations.find(CALLER, "r_1", "m_1")))
    assert (found["status"], found.get("problem", {}).get("code")) == told
