"""The two loops that can turn an owner process: Bytewax, and a plain loop that proves Bytewax is replaceable.

Bytewax is the loop, not the checkpoint: no recovery store, one worker per process, the item is a PartitionBatch and the
transaction happens in ``stateful_batch`` keyed by the zero-padded partition, so results leave after the commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.operators import StatefulBatchLogic
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import run_main

from dataflows.owner.batch import CommittedBatch, PartitionBatch
from dataflows.owner.process import OwnerProcess

Driver = Literal["bytewax", "plain"]
_KeyedBatch = tuple[str, PartitionBatch]


def run_plain(process: OwnerProcess) -> None:
    """Turns the owner until it has drained. Raises what a batch or the reader raised."""
    process.start()
    while not process.finished():
        process.step()


def run_bytewax(process: OwnerProcess) -> None:
    """The same as a dataflow. Raises the original error, not Bytewax's wrapping of it."""
    process.start()
    try:
        run_main(owner_flow(process))
    except Exception as error:  # noqa: BLE001 - Bytewax wraps whatever user code raised
        raise _root_cause(error) from error


def owner_flow(process: OwnerProcess) -> Dataflow:
    """The owner as a dataflow: read, commit, publish."""
    flow = Dataflow("owner")
    batches = op.input("commands", flow, _Commands(process))
    committed = op.stateful_batch("commit", batches, lambda _state: _Commit(process))
    op.output("publish", op.key_rm("results", committed), _Publish(process))
    return flow


class _Commands(FixedPartitionedSource[_KeyedBatch, None]):
    """One part: this process with all the partitions that Kafka gives it."""

    def __init__(self, process: OwnerProcess) -> None:
        self._process = process

    def list_parts(self) -> list[str]:
        return ["owner"]

    def build_part(self, step_id: str, for_part: str, resume_state: None) -> _CommandsPart:
        del step_id, for_part
        if resume_state is not None:
            raise RuntimeError("Bytewax recovery stays off: Postgres is the checkpoint")
        return _CommandsPart(self._process)


class _CommandsPart(StatefulSourcePartition[_KeyedBatch, None]):
    def __init__(self, process: OwnerProcess) -> None:
        self._process = process

    def next_batch(self) -> Iterable[_KeyedBatch]:
        if self._process.finished():
            raise StopIteration
        try:
            batch = self._process.next_batch()
        except StopIteration as error:  # Bytewax would take it for the end of input
            raise RuntimeError("stray StopIteration") from error
        return [] if batch is None else [(f"{batch.partition:05d}", batch)]

    def next_awake(self) -> datetime | None:
        return None

    def snapshot(self) -> None:
        return None


class _Commit(StatefulBatchLogic[PartitionBatch, CommittedBatch, None]):
    def __init__(self, process: OwnerProcess) -> None:
        self._process = process

    def on_batch(self, values: list[PartitionBatch]) -> tuple[Iterable[CommittedBatch], bool]:
        return [committed for batch in values for committed in self._process.commit(batch)], self.RETAIN

    def snapshot(self) -> None:
        return None


class _Publish(DynamicSink[CommittedBatch]):
    def __init__(self, process: OwnerProcess) -> None:
        self._process = process

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _PublishPart:
        del step_id, worker_index, worker_count
        return _PublishPart(self._process)


class _PublishPart(StatelessSinkPartition[CommittedBatch]):
    def __init__(self, process: OwnerProcess) -> None:
        self._process = process

    def write_batch(self, items: list[CommittedBatch]) -> None:
        for item in items:
            self._process.publish(item)


def _root_cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def runner(driver: Driver) -> Any:  # noqa: ANN401 - one of the two functions above
    """The loop of that name."""
    return run_bytewax if driver == "bytewax" else run_plain
