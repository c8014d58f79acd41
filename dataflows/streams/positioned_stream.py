"""A topic folded by partition, with the positions in Postgres beside what they led to.

Bytewax is the loop, not the checkpoint: no recovery store, one worker. A restart reads on from what the positions say,
and folding again ends in the same state.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Generic, Protocol, TypeVar

import bytewax.operators as op
import psycopg
import structlog
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.operators import StatefulBatchLogic
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from confluent_kafka import KafkaError, KafkaException

from dataflows import limits
from dataflows.awake import AT_ONCE
from dataflows.owner.drivers import run_flow
from schemas import errors
from sinks.streams.stand_by import StandBy

_log = structlog.get_logger(__name__)


class _OfPartition(Protocol):
    @property
    def partition(self) -> int: ...


Batch = TypeVar("Batch", bound=_OfPartition)
Done = TypeVar("Done")
Read = Callable[[], Iterable[Batch]]
Fold = Callable[[Batch], Done]


def raise_unless_passing(error: KafkaError, name: str) -> None:
    """What Kafka says beside messages is logged, as it mends itself. Raises KafkaException for what does not.

    A position that is gone does not: reading begins again, and tells what was missed.
    """
    if error.fatal() or error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - its name
        raise KafkaException(error)
    _log.warning(f"{name}_kafka_error", error=error.str())


class PositionedStream(ABC, Generic[Batch, Done]):
    """Folds until ``stop``."""

    def __init__(self, name: str, count: Callable[[Done], None], stand_by: StandBy | None = None) -> None:
        """``stand_by``: of a stream that others of its kind leave alone while it is followed."""
        self._name = name
        self._stand_by = stand_by
        self._count = count
        self._stop = threading.Event()
        self._is_open = False

    @property
    def is_ready(self) -> bool:
        """The stream is followed: here, or by another process for which this one stands by. Any thread may ask."""
        return self._is_open or self.stands_by

    @property
    def stands_by(self) -> bool:
        """Another process follows the stream, and this one waits for its place. Any thread may ask."""
        return self._stand_by is not None and self._stand_by.is_waiting

    @abstractmethod
    def opened(self) -> AbstractContextManager[tuple[Read[Batch], Fold[Batch, Done]]]:
        """Servers are connected to, and reading begins at the positions; all is left at the end."""

    def stop(self) -> None:
        """The loop ends after the batch that is under way."""
        self._stop.set()

    def run(self) -> None:
        """Reads until ``stop``; servers that are away are waited for. Raises what is no passing error."""
        while not self._stop.is_set():
            try:
                if self._stand_by is not None:
                    self._stand_by.wait(self._stop)
                    if self._stop.is_set():
                        return
                with self.opened() as (read, fold):
                    self._is_open = True
                    run_flow(self._flow(read, fold))
            except (psycopg.OperationalError, psycopg.InterfaceError, KafkaException, errors.Fenced) as error:
                self._is_open = False
                _log.warning(f"{self._name}_restart", cause=type(error).__name__, error=str(error).partition("\n")[0])
                self._stop.wait(limits.STREAM_RETRY_S)

    def _flow(self, read: Read[Batch], fold: Fold[Batch, Done]) -> Dataflow:
        """Read, fold, count."""
        flow = Dataflow(self._name)
        batches = op.input("read", flow, _Source(self._name, read, self._stop))
        done = op.stateful_batch("fold", batches, lambda _state: _Fold(fold))
        op.output("count", op.key_rm("done", done), _Count(self._count))
        return flow


class _Source(FixedPartitionedSource[tuple[str, Batch], None], Generic[Batch]):
    def __init__(self, name: str, read: Read[Batch], stop: threading.Event) -> None:
        self._name = name
        self._read = read
        self._stop = stop

    def list_parts(self) -> list[str]:
        return [self._name]

    def build_part(self, step_id: str, for_part: str, resume_state: None) -> _Part[Batch]:
        del step_id, for_part
        if resume_state is not None:
            raise RuntimeError("Bytewax recovery stays off: Postgres is the checkpoint")
        return _Part(self._read, self._stop)


class _Part(StatefulSourcePartition[tuple[str, Batch], None], Generic[Batch]):
    def __init__(self, read: Read[Batch], stop: threading.Event) -> None:
        self._read = read
        self._stop = stop

    def next_batch(self) -> Iterable[tuple[str, Batch]]:
        if self._stop.is_set():
            raise StopIteration
        return [(f"{batch.partition:05d}", batch) for batch in self._read()]

    def next_awake(self) -> datetime:
        return AT_ONCE

    def snapshot(self) -> None:
        return None


class _Fold(StatefulBatchLogic[Batch, Done, None], Generic[Batch, Done]):
    def __init__(self, fold: Fold[Batch, Done]) -> None:
        self._fold = fold

    def on_batch(self, values: list[Batch]) -> tuple[Iterable[Done], bool]:
        return [self._fold(batch) for batch in values], self.RETAIN

    def snapshot(self) -> None:
        return None


class _Count(DynamicSink[Done], Generic[Done]):
    def __init__(self, count: Callable[[Done], None]) -> None:
        self._count = count

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _CountPart[Done]:
        del step_id, worker_index, worker_count
        return _CountPart(self._count)


class _CountPart(StatelessSinkPartition[Done], Generic[Done]):
    def __init__(self, count: Callable[[Done], None]) -> None:
        self._count = count

    def write_batch(self, items: list[Done]) -> None:
        for item in items:
            self._count(item)
