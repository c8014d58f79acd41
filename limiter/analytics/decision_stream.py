"""Decisions for their sink of ClickHouse: blocks of gateways, of which each decision counts once.

What a gateway sends again after a kill is below ``counted``, which moves in the transaction that marks the plan. No
decision waits for any of it. Source: spec 3 section 6, reference 4.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from typing import TYPE_CHECKING, Any, Final

import structlog

from limiter.analytics.decision_reader import DecisionReader, Taken
from limiter.analytics.decision_rows import Source, table_columns
from schemas.limiter import limits as limiter_limits
from schemas.limiter import topics
from sinks import limits as sinks_limits
from sinks.clickhouse.limiter.tables import DECISIONS, TABLES
from sinks.clickhouse.ranges import Range
from sinks.kafka.topic_offsets import TopicOffsets
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    import psycopg

    from sinks.clickhouse.insert import Inserter
    from sinks.clickhouse.plans import Fence, Plan
    from sinks.clickhouse.sink import SinkSettings
    from sinks.clickhouse.tables import Table
    from sinks.streams.intake import Halt

_SQL: Final = queries("sinks.postgres.queries.limiter", "policies.sql")
_AGAIN_LENGTH: Final = 8
_ROWS_OF_SOURCES: Final = (
    "at between fromUnixTimestamp64Micro({first:Int64}) and fromUnixTimestamp64Micro({last:Int64})"
    " and source in {sources:Array(String)}"
)
_log: Final = structlog.get_logger(__name__)


def open_stream(
    settings: SinkSettings, connection: psycopg.Connection, reach: Callable[[str], None] = lambda _: None
) -> DecisionStream:
    """Over the topic of decisions; the connection is the one that holds the fence."""
    return DecisionStream(settings, connection, reach)


class DecisionStream:
    """Reads blocks of decisions; one thread at a time may use it."""

    def __init__(self, settings: SinkSettings, connection: psycopg.Connection, reach: Callable[[str], None]) -> None:
        self._settings = settings
        self._partitions = range(settings.partitions)
        self._connection = connection
        self._reach = reach
        self._reader = DecisionReader(settings.kafka, topic=settings.topic, client_id=settings.owner_id)

    @property
    def halts(self) -> Mapping[int, Halt]:
        """The partitions that stand still, and why."""
        return self._reader.halts

    def close(self) -> None:
        """Leaves Kafka."""
        self._reader.close()

    def begin(self, fence: Fence) -> None:
        """Goes to where ClickHouse ends. A partition stands still where the topic is another, or shorter."""
        held = TopicOffsets(self._settings.kafka, self._settings.topic).ask(self._partitions).answer()
        other = fence.in_other_topic(self._partitions, held[0].topic_id)
        self._reader.begin(fence.positions(self._partitions), held, other)

    def read(self, stop: threading.Event, plan_id: int) -> tuple[DecisionBlock | None, float]:
        """The records of one interval, counted from the first, by place; None after an idle heartbeat interval."""
        found: list[Taken] = []
        decisions, started = 0, time.monotonic()
        deadline = started + sinks_limits.SINK_HEARTBEAT_MS / 1_000
        while decisions < limiter_limits.LIMIT_SINK_DECISIONS_MAX and (left := deadline - time.monotonic()) > 0:
            if stop.is_set():
                break
            wait_s = sinks_limits.SINK_READ_TIMEOUT_MS / 1_000 if found else sinks_limits.KAFKA_IDLE_WAIT_S
            taken = self._reader.read(min(wait_s, left))
            if taken and not found:
                started = time.monotonic()
                deadline = started + limiter_limits.LIMIT_SINK_INTERVAL_MS / 1_000
            found += taken
            decisions += sum(one.decisions for one in taken)
        return (self._block(sorted(found, key=lambda one: one[:2]), plan_id) if found else None), started

    def again(self, plan: Plan, beat: Callable[[], None]) -> DecisionBlock | None:
        """The records of an open plan; None when it waited for longer than Kafka keeps decisions."""
        taken = self._reader.read_again(plan.ranges)
        if taken is None:
            _log.error("decisions_lost", reason="Kafka has let the records of an open plan go", plan=plan.plan_id)
            return None
        beat()
        return self._block(taken, plan.plan_id)

    def _block(self, taken: Sequence[Taken], plan_id: int) -> DecisionBlock:
        return DecisionBlock(self._connection, taken, plan_id, self._reach)


class DecisionBlock:
    """Records of gateways. What was counted before is in none of its rows."""

    def __init__(
        self, connection: psycopg.Connection, taken: Sequence[Taken], plan_id: int, reach: Callable[[str], None]
    ) -> None:
        self._connection = connection
        self._taken = taken
        self._plan_id = plan_id
        self._reach = reach
        self.records = sum(one.decisions for one in taken)
        blocks = [(one.partition, one.block) for one in taken if one.block is not None]
        self._counted = self._counted_before({block.source for _, block in blocks})
        self._columns = table_columns(blocks, self._counted, plan_id)

    def _counted_before(self, sources: set[str]) -> dict[Source, int]:
        partitions = sorted({one.partition for one in self._taken})
        rows = self._connection.execute(_SQL["decision_sources"].encode(), (sorted(sources), partitions)).fetchall()
        return {(source, partition): until for source, partition, until in rows}

    def ranges(self) -> tuple[Range, ...]:
        """Where the records lie, by partition."""
        by_partition: dict[int, list[Taken]] = {}
        for one in self._taken:
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

    def sha256(self) -> bytes:
        """The digest of the records and their places."""
        whole = hashlib.sha256()
        for one in self._taken:
            head = (one.partition, one.offset, len(one.value))
            whole.update(b"".join(n.to_bytes(8, "big") for n in head) + one.value)
        return whole.digest()

    def counts(self) -> dict[str, int]:
        """How many rows it has in every table."""
        return {name: len(columns[0]) for name, columns in self._columns.items()}

    def insert(self, inserter: Inserter, token: str) -> None:
        """Inserts each table's rows as one block."""
        for table in TABLES:
            columns: list[list[Any]] = self._columns[table.name]
            if columns[0]:
                inserter.insert_columns(table, columns, token)
                self._reach("decisions_after_table")

    def complete(self, inserter: Inserter, token: str) -> int:
        """Inserts all of it again: its token, or the numbers of its rows, lets each in once.

        What is not there then has a token that alone outlived a kill of ClickHouse (``Inserter.complete``), and comes
        under another one.
        """
        self.insert(inserter, token)
        for table in TABLES:
            columns: list[list[Any]] = self._columns[table.name]
            if columns[0] and not self._is_there(inserter, table, columns):
                inserter.insert_columns(table, columns, f"{token}:{uuid.uuid4().hex[:_AGAIN_LENGTH]}")
        return sum(self.counts().values())

    def _is_there(self, inserter: Inserter, table: Table, columns: list[list[Any]]) -> bool:
        if table is DECISIONS:
            sources, numbers, at = columns[:3]
            asked = {"first": min(at), "last": max(at), "sources": sorted(set(sources))}
            found = inserter.found(table, ("source", "number"), _ROWS_OF_SOURCES, asked)
            return found.issuperset(zip(sources, numbers, strict=True))
        if "block" in table.columns:  # none but this block has its number
            return len(inserter.found(table, table.columns, f"block = {self._plan_id}")) == len(columns[0])
        return False  # a few rows, of which the newest of a source counts

    def marked(self, plan_id: int) -> None:
        """The sources are counted so far."""
        if self._counted:
            columns = zip(*((*place, until) for place, until in sorted(self._counted.items())), strict=True)
            self._connection.execute(_SQL["decision_sources_counted"].encode(), [list(column) for column in columns])
        if plan_id % sinks_limits.SINK_PLANS_PRUNE_EVERY == 0:
            self._connection.execute(_SQL["decision_sources_prune"].encode(), (2 * topics.DECISIONS_KEPT_MS,))
