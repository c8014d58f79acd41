"""Leases as a dataflow, keyed by partition of the topic, with a state for each lease in it.

Bytewax is the loop, not the checkpoint: no recovery store, one worker, and positions in Postgres beside what they led
to. A restart reads on from the first report of the oldest open lease, and folding again ends in the same state.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import datetime

import bytewax.operators as op
import psycopg
import structlog
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.operators import StatefulBatchLogic
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from confluent_kafka import KafkaException

from dataflows.limiter.leases.metrics import count
from dataflows.limiter.leases.reader import LeaseBatch, LeaseReader
from dataflows.limiter.leases.settler import LeaseSettler, Settled
from dataflows.owner.drivers import run_flow
from schemas import limits
from sinks.kafka.connection import KafkaConnection

_log = structlog.get_logger(__name__)


class LeaseStream:
    """Settles leases until ``stop``."""

    def __init__(self, kafka: KafkaConnection, dsn: str, redis_url: str, client_id: str) -> None:
        self._kafka = kafka
        self._dsn = dsn
        self._redis_url = redis_url
        self._client_id = client_id
        self._stop = threading.Event()
        self.is_ready = False

    def stop(self) -> None:
        """The loop ends after the batch that is under way."""
        self._stop.set()

    def run(self) -> None:
        """Reads until ``stop``; servers that are away are waited for. Raises what is no passing error."""
        while not self._stop.is_set():
            try:
                self._follow()
            except (psycopg.OperationalError, psycopg.InterfaceError, KafkaException) as error:
                self.is_ready = False
                _log.warning("leases_restart", cause=type(error).__name__)
                self._stop.wait(limits.LIMIT_STORE_RETRY_S)

    def _follow(self) -> None:
        settler = LeaseSettler(self._dsn, self._redis_url)
        try:
            reader = LeaseReader(self._kafka, self._client_id, settler.positions())
            try:
                self.is_ready = True
                run_flow(lease_flow(reader, settler, self._stop))
            finally:
                reader.close()
        finally:
            settler.close()


def lease_flow(reader: LeaseReader, settler: LeaseSettler, stop: threading.Event) -> Dataflow:
    """Read, settle, count."""
    flow = Dataflow("leases")
    batches = op.input("reports", flow, _Reports(reader, stop))
    settled = op.stateful_batch("settle", batches, lambda _state: _Settle(settler))
    op.output("count", op.key_rm("settlements", settled), _Count())
    return flow


class _Reports(FixedPartitionedSource[tuple[str, LeaseBatch], None]):
    def __init__(self, reader: LeaseReader, stop: threading.Event) -> None:
        self._reader = reader
        self._stop = stop

    def list_parts(self) -> list[str]:
        return ["leases"]

    def build_part(self, step_id: str, for_part: str, resume_state: None) -> _ReportsPart:
        del step_id, for_part
        if resume_state is not None:
            raise RuntimeError("Bytewax recovery stays off: Postgres is the checkpoint")
        return _ReportsPart(self._reader, self._stop)


class _ReportsPart(StatefulSourcePartition[tuple[str, LeaseBatch], None]):
    def __init__(self, reader: LeaseReader, stop: threading.Event) -> None:
        self._reader = reader
        self._stop = stop

    def next_batch(self) -> Iterable[tuple[str, LeaseBatch]]:
        if self._stop.is_set():
            raise StopIteration
        return [(f"{batch.partition:05d}", batch) for batch in self._reader.read()]

    def next_awake(self) -> datetime | None:
        return None

    def snapshot(self) -> None:
        return None


class _Settle(StatefulBatchLogic[LeaseBatch, Settled, None]):
    def __init__(self, settler: LeaseSettler) -> None:
        self._settler = settler

    def on_batch(self, values: list[LeaseBatch]) -> tuple[Iterable[Settled], bool]:
        return [self._settler.settle(batch) for batch in values], self.RETAIN

    def snapshot(self) -> None:
        return None


class _Count(DynamicSink[Settled]):
    def build(self, step_id: str, worker_index: int, worker_count: int) -> _CountPart:
        del step_id, worker_index, worker_count
        return _CountPart()


class _CountPart(StatelessSinkPartition[Settled]):
    def write_batch(self, items: list[Settled]) -> None:
        for item in items:
            count(item)
