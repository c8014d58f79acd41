"""The sink: committed events from Kafka into ClickHouse, each exactly once.

A cycle, numbered as in ``Feed.cycle``: (1) read a block, (2) write the plan in Postgres, (3) insert under its token,
(4) mark it inserted and advance the positions. A restart finds at most one open plan, reads exactly its records again
and completes the same block. Whatever fails, the cycle is left and begun again from Postgres: one way to recover.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import psycopg
from confluent_kafka.cimpl import KafkaException

from schemas import errors, limits
from sinks.clickhouse import tables
from sinks.clickhouse.block import Block
from sinks.clickhouse.insert import Inserter
from sinks.clickhouse.plans import Fence, Plan
from sinks.streams.intake import Position
from sinks.streams.reader import EventReader, read_until
from sinks.streams.topic import topic_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sinks.clickhouse.connection import ClickHouseConnection
    from sinks.kafka.connection import KafkaConnection
    from sinks.streams.intake import Halt


class Observer(Protocol):
    """Hears what the sink does; metrics and logs are wired to it."""

    def inserted(self, events: int, rows: int, seconds: float) -> None:
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

    kafka: KafkaConnection
    postgres_dsn: str
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
            except (errors.Unavailable, psycopg.OperationalError, KafkaException) as error:
                if time.monotonic() - began > limits.SINK_LEASE_MS / 1_000:  # it had worked for a while
                    backoff_ms = limits.SINK_BACKOFF_FIRST_MS
                wait_s = random.uniform(0.5, 1.0) * backoff_ms / 1_000
                self._observer.failed(error, wait_s)
                self._stop.wait(wait_s)
                backoff_ms = min(backoff_ms * 2, limits.SINK_BACKOFF_MAX_MS)
            except errors.OwnershipLost:
                self._observer.standing_by()

    def _run_once(self) -> None:
        settings = self._settings
        reader = EventReader(settings.kafka, topic=settings.topic, client_id=settings.owner_id, group="clickhouse-sink")
        try:
            with psycopg.connect(
                settings.postgres_dsn, autocommit=True, connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S
            ) as connection:
                fence = Fence(connection, topic=settings.topic, owner_id=settings.owner_id)
                if not self._claim(fence):
                    return
                try:
                    self._feed(fence, reader)
                finally:
                    if not connection.closed and not connection.broken:
                        fence.release()
        finally:
            reader.close()

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

    def _feed(self, fence: Fence, reader: EventReader) -> None:
        client = self._settings.clickhouse.client()
        try:
            tables.apply_schema(client)
            feed = Feed(
                fence,
                reader,
                Inserter(client),
                observer=self._observer,
                fail_point=self._reach,
                partitions=self._settings.partitions,
            )
            feed.recover(topic_id(self._settings.kafka, self._settings.topic))
            self._observer.feeding()
            while not self._stop.is_set():
                feed.cycle(self._stop)
        finally:
            client.close()


class Feed:
    """The sink while it holds the fence."""

    def __init__(
        self,
        fence: Fence,
        reader: EventReader,
        inserter: Inserter,
        *,
        observer: Observer,
        fail_point: Callable[[str], None],
        partitions: int,
    ) -> None:
        self._fence = fence
        self._reader = reader
        self._inserter = inserter
        self._observer = observer
        self._reach = fail_point
        self._partitions = range(partitions)
        self._next_plan_id = 1

    def recover(self, topic_id: str) -> None:
        """Completes the open plan, if there is one, and goes to where ClickHouse ends in the topic of this id."""
        plan = self._fence.open_plan()
        if plan is not None:
            missing = complete_plan(self._fence, self._reader, self._inserter, plan)
            self._observer.recovered(plan.plan_id, missing)
        self._next_plan_id = self._fence.last_plan_id() + 1
        self._reader.assign(self._fence.positions(self._partitions))
        self._reader.halt_what_is_not_there(self._fence.in_other_topic(self._partitions, topic_id))

    def cycle(self, stop: threading.Event) -> None:
        """One block from Kafka to ClickHouse, or a heartbeat when there is nothing to insert."""
        # 1. Read what came within the interval, up to a full block.
        block, started = self._read_block(stop)
        self._observer.halted(self._reader.intake.halts)
        if block is None:
            self._fence.hold()
            return
        # 2. Write down exactly what is about to be inserted.
        made = block.rows()
        sha256 = block.sha256()
        plan = Plan(
            plan_id=self._next_plan_id,
            token=f"millrace:{self._next_plan_id}:{sha256.hex()[:32]}",
            sha256=sha256,
            rows={table: len(rows) for table, rows in made.items()},
            ranges=tuple(block.ranges()),
        )
        planned = time.monotonic()
        self._fence.write_plan(plan)
        self._reach("sink_after_plan")
        # 3. Insert it. A process that was frozen since the plan asks first whether it was replaced meanwhile.
        if time.monotonic() - planned > limits.SINK_PLAN_AGE_MAX_S:
            self._fence.hold()
        self._inserter.insert(made, plan.token)
        self._reach("sink_after_insert")
        # 4. Confirm it and advance.
        self._fence.mark_inserted(plan)
        self._reach("sink_after_mark")
        self._next_plan_id += 1
        self._observer.inserted(block.events, sum(plan.rows.values()), time.monotonic() - started)

    def _read_block(self, stop: threading.Event) -> tuple[Block | None, float]:
        """The events of one interval, counted from the first; None after an idle heartbeat interval."""
        block, started = Block(), time.monotonic()
        deadline = started + limits.SINK_HEARTBEAT_MS / 1_000
        while block.events < limits.SINK_BLOCK_EVENTS_MAX and not stop.is_set():
            now = time.monotonic()
            if now >= deadline:
                break
            wait_s = min(limits.SINK_READ_TIMEOUT_MS / 1_000, deadline - now)
            taken = self._reader.read(limits.SINK_READ_MESSAGES_MAX, wait_s)
            if taken and not block.events:
                started = time.monotonic()
                deadline = started + limits.SINK_BLOCK_INTERVAL_MS / 1_000
            block.add(taken)
        return (block if block.events else None), started


def complete_plan(fence: Fence, reader: EventReader, inserter: Inserter, plan: Plan) -> int:
    """Inserts what is missing of an open plan, marks it, and returns how many rows were missing.

    Raises errors.InvariantViolation when Kafka does not hold the planned records any more as they were.
    """
    start = {r.partition: Position(r.first_offset, r.first_seq - 1) for r in plan.ranges}
    fence.write_checkpoint(
        f"sink-plan-{plan.plan_id}", "the sink restarts from a plan", f"plan {plan.plan_id} {plan.token}", start
    )
    reader.assign(start)
    block = Block()
    ends = {r.partition: r.last_seq for r in plan.ranges}
    for taken in read_until(reader, ends, limits.SINK_RECOVERY_READ_TIMEOUT_S):
        block.add(taken)
        fence.hold_through()
    if block.sha256() != plan.sha256 or tuple(block.ranges()) != plan.ranges:
        raise errors.InvariantViolation(
            f"the records of plan {plan.plan_id} are not what they were; compare with 'millrace check'", plan=plan
        )
    missing = inserter.complete(block.rows(), plan.ranges, plan.token)
    fence.mark_inserted(plan)
    return sum(missing.values())
