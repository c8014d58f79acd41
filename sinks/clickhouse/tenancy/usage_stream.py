"""Counted usage for its sink of ClickHouse, out of Postgres: what counts is decided there, and never changes.

A place (partition, seq) is gapless and committed in order, so a block is a run of places as one of events is, and a
restart reads the same rows again.
"""

from __future__ import annotations

import hashlib
import math
import time
from typing import TYPE_CHECKING, Any, Final

from schemas import errors
from schemas.tenancy import limits as tenancy_limits
from sinks import limits as sinks_limits
from sinks.clickhouse.ranges import Range
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    import psycopg

    from sinks.clickhouse.insert import Inserter
    from sinks.clickhouse.plans import Fence, Plan
    from sinks.clickhouse.sink import SinkSettings
    from sinks.clickhouse.tables import Row
    from sinks.streams.intake import Halt

TABLE: Final = "tenant_usage"
_SQL: Final = queries("sinks.postgres.queries.tenancy", "usage_feed.sql")


def open_stream(
    settings: SinkSettings, connection: psycopg.Connection, reach: Callable[[str], None] = lambda _: None
) -> UsageFeed:
    """Over the connection that holds the fence; Kafka is not asked."""
    del reach
    return UsageFeed(connection, range(settings.partitions))


class UsageFeed:
    """Reads counted usage; one thread at a time may use it."""

    halts: Mapping[int, Halt] = {}  # nothing can be missing

    def __init__(self, connection: psycopg.Connection, partitions: range) -> None:
        self._connection = connection
        self._partitions = partitions
        self._last: dict[int, int] = {}
        self._found_at = -math.inf

    def close(self) -> None:
        """The connection is the sink's."""

    def begin(self, fence: Fence) -> None:
        """Goes to where ClickHouse ends."""
        self._last = {partition: at.last_seq for partition, at in fence.positions(self._partitions).items()}

    def read(self, stop: threading.Event, plan_id: int) -> tuple[UsageBlock | None, float]:
        """What was counted since; None after an idle heartbeat interval."""
        del plan_id
        started = time.monotonic()
        deadline = started + sinks_limits.SINK_HEARTBEAT_MS / 1_000
        while not stop.is_set():
            if rows := self._next():
                self._found_at = time.monotonic()
                return UsageBlock(rows), started
            stop.wait(look_again_in_s(time.monotonic() - self._found_at))
            started = time.monotonic()
            if started >= deadline:
                break  # the next read looks at once
        return None, started

    def again(self, plan: Plan, beat: Callable[[], None]) -> UsageBlock:
        """The rows of an open plan. Raises InvariantViolation when one is gone: none is removed before."""
        rows: list[Row] = []
        for r in plan.ranges:
            rows += self._rows(r.partition, r.first_seq - 1, r.last_seq, r.last_seq - r.first_seq + 1)
            beat()
        if len(rows) != sum(r.last_seq - r.first_seq + 1 for r in plan.ranges):
            raise errors.InvariantViolation(f"usage of plan {plan.plan_id} is gone")
        return UsageBlock(rows)

    def _next(self) -> list[Row]:
        """The next rows of every partition that has more; what is read counts as taken."""
        asked = {"partitions": list(self._partitions)}
        ends: dict[int, int] = dict(self._connection.execute(_SQL["usage_feed_ends"].encode(), asked).fetchall())
        rows: list[Row] = []
        for partition, end in sorted(ends.items()):
            room = tenancy_limits.USAGE_FEED_BLOCK_MAX - len(rows)
            if end > self._last[partition] and room > 0:
                found = self._rows(partition, self._last[partition], end, room)
                self._last[partition] = found[-1][1]
                rows += found
        return rows

    def _rows(self, partition: int, after: int, until: int, limit: int) -> list[Row]:
        asked = {"partition": partition, "after": after, "until": until, "limit": limit}
        return self._connection.execute(_SQL["usage_feed_rows"].encode(), asked).fetchall()


def look_again_in_s(idle_s: float) -> float:
    """How long to wait for usage where none has come for so long: an idle feed looks as often as it beats."""
    is_idle = idle_s > tenancy_limits.USAGE_FEED_IDLE_AFTER_S
    return sinks_limits.SINK_HEARTBEAT_MS / 1_000 if is_idle else tenancy_limits.USAGE_FEED_POLL_S


class UsageBlock:
    """Rows of counted usage, in order of their places."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = list(rows)
        self.records = len(rows)

    def ranges(self) -> tuple[Range, ...]:
        """The run of each partition; a place is its offset, too."""
        found: dict[int, list[int]] = {}
        for partition, seq, *_ in self._rows:
            found.setdefault(partition, []).append(seq)
        return tuple(
            Range(partition=p, first_offset=seqs[0], last_offset=seqs[-1], first_seq=seqs[0], last_seq=seqs[-1])
            for p, seqs in sorted(found.items())
        )

    def sha256(self) -> bytes:
        """The digest of all that the rows say."""
        whole = hashlib.sha256()
        for row in self._rows:
            whole.update(repr(row).encode())
        return whole.digest()

    def counts(self) -> dict[str, int]:
        """How many rows it has."""
        return {TABLE: len(self._rows)}

    def insert(self, inserter: Inserter, token: str) -> None:
        """Inserts the rows as one block."""
        inserter.insert(self._tables(), token)

    def complete(self, inserter: Inserter, token: str) -> int:
        """Looks which rows are there, and inserts the others."""
        return sum(inserter.complete(self._tables(), self.ranges(), token).values())

    def marked(self, plan_id: int) -> None:
        """Nothing but the positions moves."""

    def _tables(self) -> dict[str, list[Any]]:
        return {TABLE: self._rows}
