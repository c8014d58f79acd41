"""The two loops that can turn an owner process: Bytewax, and a plain loop that proves Bytewax is replaceable.

Bytewax is the loop, not the checkpoint: it has no recovery store and one worker per process. An item is a round of
batches. ``stateful_batch`` runs the transaction, so results leave after the commit. Each lane has a dataflow and a
thread of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, Literal

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.errors import BytewaxRuntimeError
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.operators import StatefulBatchLogic
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import run_main

from dataflows.awake import AT_ONCE
from dataflows.owner.batch import CommittedBatch, PartitionBatch
from dataflows.owner.process import Lane, OwnerProcess

Driver = Literal["bytewax", "plain"]
_Round = list[PartitionBatch]
_KeyedRound = tuple[str, _Round]
_KEY: Final = "round"


def run_plain(process: OwnerProcess) -> None:
    """Turns the owner until it has drained. Raises what a batch or the reader raised."""
    process.run(_plain_turn)


def _plain_turn(lane: Lane) -> None:
    while not lane.finished():
        lane.step()


def run_bytewax(process: OwnerProcess) -> None:
    """The same with a dataflow per lane. Raises the original error, not Bytewax's wrapping of it."""
    process.run(_bytewax_turn)


def _bytewax_turn(lane: Lane) -> None:
    run_flow(owner_flow(lane))


def run_flow(flow: Dataflow) -> None:
    """Turns a dataflow until its input ends. Raises the original error, not Bytewax's wrapping of it."""
    try:
        run_main(flow)  # type: ignore[no-untyped-call]  # the wheel has no types for it
    except Exception as error:  # noqa: BLE001 - Bytewax wraps whatever user code raised
        raise _unwrapped(error) from None  # `from error` would close a circle: the wrapper's cause is the original


def owner_flow(lane: Lane) -> Dataflow:
    """A lane as a dataflow: read, commit, publish."""
    flow = Dataflow("owner")
    batches = op.input("commands", flow, _Commands(lane))
    committed = op.stateful_batch("commit", batches, lambda _state: _Commit(lane))
    op.output("publish", op.key_rm("results", committed), _Publish(lane))
    return flow


class _Commands(FixedPartitionedSource[_KeyedRound, None]):
    """A Bytewax source of one part: the free batches of all partitions that Kafka gives this process."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    def list_parts(self) -> list[str]:
        return ["owner"]

    def build_part(self, step_id: str, for_part: str, resume_state: None) -> _CommandsPart:
        del step_id, for_part
        if resume_state is not None:
            raise RuntimeError("Bytewax recovery stays off: Postgres is the checkpoint")
        return _CommandsPart(self._lane)


class _CommandsPart(StatefulSourcePartition[_KeyedRound, None]):
    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    def next_batch(self) -> Iterable[_KeyedRound]:
        if self._lane.finished():
            raise StopIteration
        try:
            batches = self._lane.next_round()
        except StopIteration as error:  # Bytewax would take it for the end of input
            raise RuntimeError("stray StopIteration") from error
        return [(_KEY, batches)] if batches else []

    def next_awake(self) -> datetime:
        return AT_ONCE

    def snapshot(self) -> None:
        return None


class _Commit(StatefulBatchLogic[_Round, CommittedBatch, None]):
    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    def on_batch(self, values: list[_Round]) -> tuple[Iterable[CommittedBatch], bool]:
        return [committed for batches in values for committed in self._lane.commit(batches)], self.RETAIN

    def snapshot(self) -> None:
        return None


class _Publish(DynamicSink[CommittedBatch]):
    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _PublishPart:
        del step_id, worker_index, worker_count
        return _PublishPart(self._lane)


class _PublishPart(StatelessSinkPartition[CommittedBatch]):
    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    def write_batch(self, items: list[CommittedBatch]) -> None:
        for item in items:
            self._lane.publish(item)


def _unwrapped(error: BaseException) -> BaseException:
    """The error that our code raised, with its own causes."""
    while isinstance(error, BytewaxRuntimeError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def runner(driver: Driver) -> Any:
    """The loop of that name."""
    return run_bytewax if driver == "bytewax" else run_plain
