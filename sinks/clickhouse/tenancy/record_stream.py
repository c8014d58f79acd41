"""Records that Postgres keeps in places without a gap, for their sink of ClickHouse: each kind has a partition.

A place is committed in order and what lies there never changes, so a block is a run of places, and a restart reads the
same rows again. Rows are removed in Postgres, if ever, once their place is stored as fed.
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
from sinks.clickhouse.tenancy.records import FED
from sinks.clickhouse.tenancy.usage_stream import look_again_in_s
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    import psycopg

    from sinks.clickhouse.insert import Inserter
    from sinks.clickhouse.plans import Fence, Plan
    from sinks.clickhouse.sink import SinkSettings
    from sinks.clickhouse.tables import Row
    from sinks.streams.intake import Halt

_SQL: Final = queries("sinks.postgres.queries.tenancy", "record_feed.sql")
_PARTITIONS: Final = range(len(FED))


def open_stream(
    settings: SinkSettings, connection: psycopg.Connection, reach: Callable[[str], None] = lambda _: None
) -> RecordFeed:
    """Over the connection that holds the fence; Kafka is not asked."""
    del settings, reach
    return RecordFeed(connection)


class RecordFeed:
    """Reads what was added; one thread at a time may use it."""

    halts: Mapping[int, Halt] = {}  # nothing can be missing

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._last: dict[int, int] = {}
        self._found_at = -math.inf

    def close(self) -> None:
        """The connection is the sink's."""

    def begin(self, fence: Fence) -> None:
        """Goes to where ClickHouse ends."""
        self._last = {partition: at.last_seq for partition, at in fence.positions(_PARTITIONS).items()}

    def read(self, stop: threading.Event, plan_id: int) -> tuple[RecordBlock | None, float]:
        """What was added since; None after an idle heartbeat interval."""
        del plan_id
        started = time.monotonic()
        deadline = started + sinks_limits.SINK_HEARTBEAT_MS / 1_000
        while not stop.is_set():
            if block := self._next():
                self._found_at = time.monotonic()
                return block, started
            stop.wait(look_again_in_s(time.monotonic() - self._found_at))
            started = time.monotonic()
            if started >= deadline:
                break  # the next read looks at once
        return None, started

    def again(self, plan: Plan, beat: Callable[[], None]) -> RecordBlock:
        """The rows of an open plan. Raises InvariantViolation when one is gone: none is removed before."""
        found: dict[int, list[Row]] = {}
        for r in plan.ranges:
            found[r.partition] = self._rows(r.partition, r.first_seq - 1, r.last_seq, r.last_seq - r.first_seq + 1)
            beat()
        if sum(map(len, found.values())) != sum(r.last_seq - r.first_seq + 1 for r in plan.ranges):
            raise errors.InvariantViolation(f"records of plan {plan.plan_id} are gone")
        return RecordBlock(found)

    def _next(self) -> RecordBlock | None:
        """The next rows of every kind that has more; what is read counts as taken."""
        ends: dict[int, int] = dict(self._connection.execute(_SQL["record_feed_ends"].encode()).fetchall())
        found: dict[int, list[Row]] = {}
        room = tenancy_limits.USAGE_FEED_BLOCK_MAX
        for partition, end in sorted(ends.items()):
            if end > self._last[partition] and room > 0:
                rows = found[partition] = self._rows(partition, self._last[partition], end, room)
                self._last[partition] = rows[-1][1]
                room -= len(rows)
        return RecordBlock(found) if found else None

    def _rows(self, partition: int, after: int, until: int, limit: int) -> list[Row]:
        asked = {"after": after, "until": until, "limit": limit}
        return self._connection.execute(_SQL[FED[partition][1]].encode(), asked).fetchall()


class RecordBlock:
    """Rows of some kinds, each in order of its places."""

    def __init__(self, rows: Mapping[int, list[Row]]) -> None:
        self._rows = rows
        self.records = sum(map(len, rows.values()))

    def ranges(self) -> tuple[Range, ...]:
        """The run of each kind; a place is its offset, too."""
        ends = [(partition, rows[0][1], rows[-1][1]) for partition, rows in sorted(self._rows.items())]
        return tuple(Range(partition=p, first_offset=a, last_offset=b, first_seq=a, last_seq=b) for p, a, b in ends)

    def sha256(self) -> bytes:
        """The digest of all that the rows say."""
        whole = hashlib.sha256()
        for _, rows in sorted(self._rows.items()):
            for row in rows:
                whole.update(repr(row).encode())
        return whole.digest()

    def counts(self) -> dict[str, int]:
        """How many rows each table gets."""
        return {name: len(rows) for name, rows in self._tables().items()}

    def insert(self, inserter: Inserter, token: str) -> None:
        """Inserts the rows as one block of each table."""
        inserter.insert(self._tables(), token)

    def complete(self, inserter: Inserter, token: str) -> int:
        """Looks which rows are there, and inserts the others."""
        return sum(inserter.complete(self._tables(), self.ranges(), token).values())

    def marked(self, plan_id: int) -> None:
        """Nothing but the positions moves."""

    def _tables(self) -> dict[str, list[Any]]:
        return {table.name: self._rows.get(partition, []) for partition, (table, _) in enumerate(FED)}
