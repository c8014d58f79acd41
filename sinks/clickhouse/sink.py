"""The sink: records from Kafka into ClickHouse, each exactly once, whatever service they are of.

A cycle, numbered as in ``Feed.cycle``: (1) read a block, (2) write the plan in Postgres, (3) insert under its token,
(4) mark it inserted and advance the positions. A restart finds at most one open plan, reads exactly its records again
and completes the same block. Whatever fails, the cycle is left and begun again from Postgres: one way to recover.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from schemas import errors
from sinks import limits
from sinks.clickhouse import tables
from sinks.clickhouse.insert import Inserter
from sinks.clickhouse.plans import Fence, Plan
from sinks.postgres.session import NOT_HELD, Session
from sinks.streams.intake import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sinks.clickhouse.block import Block
    from sinks.clickhouse.connection import ClickHouseConnection
    from sinks.clickhouse.declared_sink import DeclaredSink
    from sinks.kafka.connection import KafkaConnection
    from sinks.streams.intake import Halt


class Stream(Protocol):
    """Gives the records of a sink in blocks. One thread at a time may use it."""

    @property
    def halts(self) -> Mapping[int, Halt]:
        """The partitions that stand still, and why."""

    def begin(self, fence: Fence) -> None:
        """Goes to where ClickHouse ends."""

    def read(self, stop: threading.Event, plan_id: int) -> tuple[Block | None, float]:
        """What came within an interval, and when the first of it came; None after an idle heartbeat interval."""
        ...

    def again(self, plan: Plan, beat: Callable[[], None]) -> Block | None:
        """The records of an open plan, read again; None when Kafka has let them go and nothing can be done about it.

        ``beat`` renews the lease meanwhile. Raises errors.Unavailable.
        """

    def close(self) -> None:
        """Leaves Kafka."""


class Observer(Protocol):
    """Hears what the sink does; metrics and logs are wired to it."""

    def inserted(self, records: int, rows: int, seconds: float) -> None:
        """A block was marked inserted; ``seconds`` from its first record to the mark."""

    def recovered(self, plan_id: int, missing_rows: int) -> None:
        """An open plan was found and completed."""

    def failed(self, error: Exception, retry_in_s: float) -> None:
        """A cycle failed and is begun again."""

    def halted(self, halts: Mapping[int, Halt]) -> None:
        """These partitions stand still, and no other: why, by partition. Said in every cycle."""

    def standing_by(self) -> None:
        """Another process feeds ClickHouse, or a swap is under way."""

    def feeding(self) -> None:
        """The sink is ours from here on, and nothing is left open behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSettings:
    """Where the sink reads, remembers and writes, and how it is called."""

    sink: DeclaredSink
    kafka: KafkaConnection
    postgres_dsn: str = field(repr=False)
    clickhouse: ClickHouseConnection
    topic: str
    partitions: int
    owner_id: str


def _no_fail_point(_name: str) -> None:
    """Fail points are a matter of tests."""


class Sink:
    """One process that feeds ClickHouse; a second one stands by until the first is gone."""

    def __init__(
        self, settings: SinkSettings, observer: Observer, fail_point: Callable[[str], None] = _no_fail_point
    ) -> None:
        self._settings = settings
        self._observer = observer
        self._reach = fail_point
        self._stop = threading.Event()

    def stop(self) -> None:
        """Ends ``run`` after the block under way; any thread may call it."""
        self._stop.set()

    def run(self) -> None:
        """Feeds ClickHouse until ``stop``. Raises errors.InvariantViolation only: everything else is tried again."""
        backoff_ms = limits.SINK_BACKOFF_FIRST_MS
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                self._run_once()
            except errors.InvariantViolation:
                raise
            except errors.OwnershipLost:
                self._observer.standing_by()
            except Exception as error:  # noqa: BLE001 - the thread's edge: nobody else would begin again, nor tell it
                if time.monotonic() - began > limits.SINK_LEASE_MS / 1_000:  # it had worked for a while
                    backoff_ms = limits.SINK_BACKOFF_FIRST_MS
                wait_s = random.uniform(0.5, 1.0) * backoff_ms / 1_000
                self._observer.failed(error, wait_s)
                self._stop.wait(wait_s)
                backoff_ms = min(backoff_ms * 2, limits.SINK_BACKOFF_MAX_MS)

    def _run_once(self) -> None:
        settings = self._settings
        with Session.connect(
            settings.postgres_dsn,
            autocommit=True,
            connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S,
            options=NOT_HELD,
        ) as connection:
            fence = Fence(connection, sink=settings.sink.name, topic=settings.topic, owner_id=settings.owner_id)
            fence.ensure()
            if not self._claim(fence):
                return
            stream: Stream = import_module(settings.sink.stream_module).open_stream(settings, connection, self._reach)
            try:
                self._feed(fence, stream)
            finally:
                stream.close()
                if not connection.closed and not connection.broken:
                    fence.release()

    def _claim(self, fence: Fence) -> bool:
        is_told = False
        while not self._stop.is_set():
            if fence.claim():
                return True
            if not is_told:
                self._observer.standing_by()
                is_told = True
            self._stop.wait(limits.SINK_CLAIM_POLL_MS / 1_000)
        return False

    def _feed(self, fence: Fence, stream: Stream) -> None:
        client = self._settings.clickhouse.client()
        try:
            tables.apply_schema(client, self._settings.sink.definitions())
            inserter = Inserter(client, self._settings.sink.tables)
            feed = Feed(fence, stream, inserter, observer=self._observer, fail_point=self._reach)
            feed.recover()
            self._observer.feeding()
            while not self._stop.is_set():
                feed.cycle(self._stop)
        finally:
            client.close()


class Feed:
    """The sink while it holds the fence."""

    def __init__(
        self, fence: Fence, stream: Stream, inserter: Inserter, *, observer: Observer, fail_point: Callable[[str], None]
    ) -> None:
        self._fence = fence
        self._stream = stream
        self._inserter = inserter
        self._observer = observer
        self._reach = fail_point
        self._next_plan_id = 1

    def recover(self) -> None:
        """Completes the open plan, if there is one, and goes to where ClickHouse ends."""
        plan = self._fence.open_plan()
        if plan is not None:
            missing = complete_plan(self._fence, self._stream, self._inserter, plan)
            self._observer.recovered(plan.plan_id, missing)
        self._next_plan_id = self._fence.last_plan_id() + 1
        self._stream.begin(self._fence)

    def cycle(self, stop: threading.Event) -> None:
        """One block from Kafka to ClickHouse, or a heartbeat when there is nothing to insert."""
        # 1. Read what came within the interval, up to a full block.
        block, started = self._stream.read(stop, self._next_plan_id)
        self._observer.halted(self._stream.halts)
        if block is None:
            self._fence.hold()
            return
        # 2. Write down exactly what is about to be inserted.
        sha256 = block.sha256()
        plan = Plan(
            plan_id=self._next_plan_id,
            token=f"millrace:{self._fence.sink}:{self._next_plan_id}:{sha256.hex()[:32]}",
            sha256=sha256,
            rows=block.counts(),
            ranges=block.ranges(),
        )
        planned = time.monotonic()
        self._fence.write_plan(plan)
        self._reach("sink_after_plan")
        # 3. Insert it. A process that was frozen since the plan asks first whether it was replaced meanwhile.
        if time.monotonic() - planned > limits.SINK_PLAN_AGE_MAX_S:
            self._fence.hold()
        block.insert(self._inserter, plan.token)
        self._reach("sink_after_insert")
        # 4. Confirm it and advance.
        self._fence.mark_inserted(plan, block.marked)
        self._reach("sink_after_mark")
        self._next_plan_id += 1
        self._observer.inserted(block.records, sum(plan.rows.values()), time.monotonic() - started)


def complete_plan(fence: Fence, stream: Stream, inserter: Inserter, plan: Plan) -> int:
    """Inserts what is missing of an open plan, marks it, and returns how many rows were missing.

    Raises errors.InvariantViolation when Kafka does not hold the planned records any more as they were.
    """
    start = {r.partition: Position(r.first_offset, r.first_seq - 1) for r in plan.ranges}
    name = f"sink-plan-{fence.sink}-{plan.plan_id}"
    fence.write_checkpoint(name, "the sink restarts from a plan", f"plan {plan.plan_id} {plan.token}", start)
    block = stream.again(plan, fence.hold_through)
    if block is None:
        fence.mark_inserted(plan)
        return 0
    if block.sha256() != plan.sha256 or block.ranges() != plan.ranges:
        raise errors.InvariantViolation(
            f"the records of plan {plan.plan_id} are not what they were; compare with 'millrace check'", plan=plan
        )
    fence.hold_through()
    missing = block.complete(inserter, plan.token)
    fence.mark_inserted(plan, block.marked)
    return missing
