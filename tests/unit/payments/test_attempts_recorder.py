"""What is written of a turn, and what need not be: a told fact whose event is back in time leaves no row in between."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dataflows.payments.attempts.recorder import Recorder
from dataflows.payments.attempts.settlement import DispatchRecord
from schemas.payments import limits

AFTER_S = limits.ATTEMPT_REPORTED_AFTER_MS / 1_000


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Store:
    """Keeps what it is given, in place of a table."""

    def __init__(self) -> None:
        self.written: list[DispatchRecord] = []

    async def record(self, records: list[DispatchRecord]) -> None:
        self.written += records


async def durably(_what: str, write: Any) -> None:
    await write()


def record(operation_id: str, status: Any, send_count: int = 1) -> DispatchRecord:
    return DispatchRecord(operation_id=operation_id, send_count=send_count, status=status, delay_ms=1)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder(clock: Clock) -> Recorder:
    return Recorder(Store(), durably, clock)  # type: ignore[arg-type] # a store and a writer of this test


def due(recorder: Recorder) -> list[str]:
    return [one.operation_id for one in recorder.due(everything=False)]


def test_a_fact_is_written_only_when_its_event_is_late(recorder: Recorder, clock: Clock) -> None:
    recorder.add(record("op_quick", "reported"))
    recorder.add(record("op_late", "reported"))
    assert due(recorder) == []
    recorder.settled(["op_quick"])
    clock.now += AFTER_S
    assert due(recorder) == ["op_late"]


def test_what_is_due_again_waits_for_nothing(recorder: Recorder) -> None:
    recorder.add(record("op_told", "reported"))
    recorder.add(record("op_again", "waiting"))
    assert due(recorder) == ["op_again"]


def test_a_later_turn_counts_from_its_own_time(recorder: Recorder, clock: Clock) -> None:
    recorder.add(record("op_a", "reported"))
    clock.now += AFTER_S
    recorder.add(record("op_a", "reported", send_count=2))
    assert due(recorder) == []
    recorder.add(record("op_a", "waiting", send_count=3))
    assert due(recorder) == ["op_a"]


def test_at_the_end_everything_is_written(clock: Clock) -> None:
    store = Store()
    recorder = Recorder(store, durably, clock)  # type: ignore[arg-type] # as above
    recorder.add(record("op_told", "reported"))
    recorder.add(record("op_again", "waiting"))
    asyncio.run(recorder.run(lambda: True))
    assert [one.operation_id for one in store.written] == ["op_told", "op_again"]
    assert recorder.due(everything=True) == []
