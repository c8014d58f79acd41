"""A worker's commands are made of events alone: whoever reads an event again sends the same command."""

from __future__ import annotations

from schemas.records import Event
from tests.services.counter.closer import react
from tests.services.counter.domain import FULL


def event(value: int, added: int, seq: int = 1) -> Event:
    """A counter as an event leaves it."""
    return Event(
        event_id=f"evt_c_0_{seq}",
        aggregate_key="ct_1",
        event_type="counter_committed",
        schema_version=1,
        trace_id="0" * 32,
        seq=seq,
        occurred_at=5,
        version=seq,
        scope="m_1",
        operation="add_to_counter",
        body={"label": "x", "value": value, "added": added},
    )


def test_the_same_event_makes_the_same_command_and_another_one_another() -> None:
    (first,), (again,), (other,) = (react(event(FULL + 1, 2, seq)) for seq in (1, 1, 2))
    assert first == again
    assert first.aggregate_key == other.aggregate_key
    assert (first.scope, first.idempotency_key) != (other.scope, other.idempotency_key)
    assert first.scope == "worker:counter_closer"
    assert first.deadline_at == 0  # it may wait for as long as its owner is away


def test_only_what_fills_a_counter_closes_it() -> None:
    assert [len(react(event(*told))) for told in ((FULL, 1), (FULL - 1, 5), (FULL + 5, 1), (FULL, 0))] == [1, 0, 0, 0]
