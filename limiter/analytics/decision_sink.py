"""Decisions into ClickHouse, each exactly once: read, plan, insert, mark, as the sink of payments does.

A block of the sink is planned in Postgres before its insert, and inserted under the plan's token; a restart reads the
same records again and completes the same block. What a gateway sends again after a kill is below ``counted``, which
moves in the transaction that marks the plan. No decision waits for any of it. Source: spec 3 section 6, reference 4.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any, Final

import psycopg
import structlog

from limiter.analytics.decision_reader import DecisionReader, Taken
from limiter.analytics.decision_rows import TABLES, Source, table_columns
from schemas import errors, limits
from schemas.limiter import topics
from sinks.clickhouse import tables
from sinks.clickhouse.block import Range
from sinks.clickhouse.insert import Inserter
from sinks.clickhouse.plans import Fence, Plan
from sinks.clickhouse.sink import Sink
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from sinks.clickhouse.sink import Observer

SINK: Final = "limiter_decisions"
_SQL: Final = queries("sinks.postgres.queries.limiter", "policies.sql")
_log: Final = structlog.get_logger(__name__)


class DecisionSink(Sink):
    """One process that feeds ClickHouse with decisions; a second one stands by until the first is gone."""

    def _run_once(self) -> None:
        settings = self._settings
        reader = DecisionReader(settings.kafka, topic=settings.topic, client_id=settings.owner_id)
        try:
            with psycopg.connect(
                settings.postgres_dsn, autocommit=True, connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S
            ) as connection:
                fence = Fence(connection, topic=settings.topic, owner_id=settings.owner_id, sink=SINK)
                if not self._claim(fence):
                    return
                try:
                    self._feed_decisions(connection, fence, reader)
                finally:
                    if not connection.closed and not connection.broken:
                        fence.release()
        finally:
            reader.close()

    def _feed_decisions(self, connection: psycopg.Connection, fence: Fence, reader: DecisionReader) -> None:
        client = self._settings.clickhouse.client()
        try:
            tables.apply_schema(client)
            feed = DecisionFeed(connection, fence, reader, Inserter(client), self._observer, self._reach)
            feed.recover(range(self._settings.partitions))
            self._observer.feeding()
            while not self._stop.is_set():
                feed.cycle(self._stop)
        finally:
            client.close()


class DecisionFeed:
    """The sink while it holds the fence."""

    def __init__(
        self,
        connection: psycopg.Connection,
        fence: Fence,
        reader: DecisionReader,
        inserter: Inserter,
        observer: Observer,
        reach: Callable[[str], None],
    ) -> None:
        self._connection = connection
        self._fence = fence
        self._reader = reader
        self._inserter = inserter
        self._observer = observer
        self._reach = reach
        self._next_plan_id = 1

    def recover(self, partitions: range) -> None:
        """Completes the open plan, if there is one, and goes to where ClickHouse ends."""
        plan = self._fence.open_plan()
        if plan is not None:
            self._complete(plan)
            self._observer.recovered(plan.plan_id, sum(plan.rows.values()))
        self._next_plan_id = self._fence.last_plan_id() + 1
        self._reader.assign(self._fence.positions(partitions))

    def _complete(self, plan: Plan) -> None:
        """Inserts a plan again, under its token; raises errors.InvariantViolation when Kafka says something else."""
        taken = self._reader.read_again(plan.ranges)
        if taken is None:  # it waited for longer than Kafka keeps decisions
            _log.error("decisions_lost", reason="Kafka has let the records of an open plan go", plan=plan.plan_id)
            self._fence.mark_inserted(plan)
            return
        if _digest(taken) != plan.sha256:
            raise errors.InvariantViolation(f"the records of plan {plan.plan_id} are not what they were", plan=plan)
        self._fence.hold()
        counted = self._counted(taken)
        self._insert(table_columns(_blocks(taken), counted, plan.plan_id), plan.token)
        self._mark(plan, counted)

    def cycle(self, stop: threading.Event) -> None:
        """One block from Kafka to ClickHouse, or a heartbeat when there is nothing to insert."""
        # 1. Read what came within the interval, up to a full block.
        taken, started = self._read(stop)
        if not taken:
            self._fence.hold()
            return
        # 2. Write down exactly what is about to be inserted.
        counted = self._counted(taken)
        made = table_columns(_blocks(taken), counted, self._next_plan_id)
        sha256 = _digest(taken)
        plan = Plan(
            plan_id=self._next_plan_id,
            token=f"millrace:{SINK}:{self._next_plan_id}:{sha256.hex()[:32]}",
            sha256=sha256,
            rows={name: len(columns[0]) for name, columns in made.items()},
            ranges=_ranges(taken),
        )
        planned = time.monotonic()
        self._fence.write_plan(plan)
        self._reach("sink_after_plan")
        # 3. Insert it. A process that was frozen since the plan asks first whether it was replaced meanwhile.
        if time.monotonic() - planned > limits.SINK_PLAN_AGE_MAX_S:
            self._fence.hold()
        self._insert(made, plan.token)
        self._reach("sink_after_insert")
        # 4. Confirm it and advance.
        self._mark(plan, counted)
        self._reach("sink_after_mark")
        self._next_plan_id += 1
        decisions = sum(one.decisions for one in taken)
        self._observer.inserted(decisions, sum(plan.rows.values()), time.monotonic() - started)

    def _read(self, stop: threading.Event) -> tuple[list[Taken], float]:
        """The records of one interval, counted from the first, by place; none after an idle heartbeat interval."""
        found: list[Taken] = []
        decisions, started = 0, time.monotonic()
        deadline = started + limits.SINK_HEARTBEAT_MS / 1_000
        while decisions < limits.LIMIT_SINK_DECISIONS_MAX and (left := deadline - time.monotonic()) > 0:
            if stop.is_set():
                break
            taken = self._reader.read(min(limits.SINK_READ_TIMEOUT_MS / 1_000, left))
            if taken and not found:
                started = time.monotonic()
                deadline = started + limits.LIMIT_SINK_INTERVAL_MS / 1_000
            found += taken
            decisions += sum(one.decisions for one in taken)
        return sorted(found, key=lambda one: one[:2]), started

    def _counted(self, taken: Sequence[Taken]) -> dict[Source, int]:
        sources = sorted({block.source for _, block in _blocks(taken)})
        rows = self._connection.execute(
            _SQL["decision_sources"].encode(), (sources, sorted({one.partition for one in taken}))
        ).fetchall()
        return {(source, partition): until for source, partition, until in rows}

    def _insert(self, made: dict[str, list[list[Any]]], token: str) -> None:
        for table in TABLES:
            if made[table.name][0]:
                self._inserter.insert_columns(table, made[table.name], token)
                self._reach("decisions_after_table")

    def _mark(self, plan: Plan, counted: dict[Source, int]) -> None:
        """In one transaction: the plan is in, the positions move, and the sources are counted so far."""
        with self._connection.transaction():
            self._fence.mark_inserted(plan)
            if counted:
                columns = zip(*((*place, until) for place, until in sorted(counted.items())), strict=True)
                self._connection.execute(
                    _SQL["decision_sources_counted"].encode(), [list(column) for column in columns]
                )
            if plan.plan_id % limits.SINK_PLANS_PRUNE_EVERY == 0:
                self._connection.execute(_SQL["decision_sources_prune"].encode(), (2 * topics.DECISIONS_KEPT_MS,))


def _blocks(taken: Sequence[Taken]) -> list[Any]:
    return [(one.partition, one.block) for one in taken if one.block is not None]


def _digest(taken: Sequence[Taken]) -> bytes:
    whole = hashlib.sha256()
    for one in taken:
        head = (one.partition, one.offset, len(one.value))
        whole.update(b"".join(n.to_bytes(8, "big") for n in head) + one.value)
    return whole.digest()


def _ranges(taken: Sequence[Taken]) -> tuple[Range, ...]:
    by_partition: dict[int, list[Taken]] = {}
    for one in taken:
        by_partition.setdefault(one.partition, []).append(one)
    return tuple(
        Range(
            partition=partition,
            first_offset=found[0].offset,
            last_offset=found[-1].offset,
            first_seq=found[0].seq,
            last_seq=found[-1].seq,
        )
        for partition, found in sorted(by_partition.items())
    )
