"""Rows that Postgres keeps in places without a gap, for a sink of ClickHouse that reads no topic.

A place (partition, seq) is gapless and committed in order, and what lies there never changes. So a block is a run of
places as one of events is, and a restart reads the same rows again. Rows are removed in Postgres, if ever, once their
place is stored as fed.
"""

from __future__ import annotations

import hashlib
import math
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from schemas import errors
from sinks import limits
from sinks.clickhouse.ranges import Range

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    import psycopg

    from sinks.clickhouse.insert import Inserter
    from sinks.clickhouse.plans import Fence, Plan
    from sinks.clickhouse.tables import Row
    from sinks.streams.intake import Halt


class PlacedRows(ABC):
    """Reads rows over the connection that holds the fence; one thread at a time may use it."""

    halts: Mapping[int, Halt] = {}  # nothing can be missing

    def __init__(self, connection: psycopg.Connection, tables: Sequence[str]) -> None:
        """``tables``: the name of each partition's."""
        self._connection = connection
        self._tables = tables
        self._last: dict[int, int] = {}
        self._found_at = -math.inf

    @abstractmethod
    def _ends(self) -> dict[int, int]:
        """The last place of each partition that has one."""

    @abstractmethod
    def _rows(self, partition: int, after: int, until: int, limit: int) -> list[Row]:
        """The rows behind a place, in order of their places."""

    def close(self) -> None:  # noqa: B027 - nothing is left to do, in any of them
        """The connection is the sink's."""

    def begin(self, fence: Fence) -> None:
        """Goes to where ClickHouse ends."""
        positions = fence.positions(range(len(self._tables)))
        self._last = {partition: at.last_seq for partition, at in positions.items()}

    def read(self, stop: threading.Event, plan_id: int) -> tuple[PlacedBlock | None, float]:
        """What was added since; None after an idle heartbeat interval."""
        del plan_id
        started = time.monotonic()
        deadline = started + limits.SINK_HEARTBEAT_MS / 1_000
        while not stop.is_set():
            if found := self._next():
                self._found_at = time.monotonic()
                return self._block(found), started
            stop.wait(look_again_in_s(time.monotonic() - self._found_at))
            started = time.monotonic()
            if started >= deadline:
                break  # the next read looks at once
        return None, started

    def again(self, plan: Plan, beat: Callable[[], None]) -> PlacedBlock:
        """The rows of an open plan. Raises InvariantViolation when one is gone: none is removed before."""
        found: dict[int, list[Row]] = {}
        for r in plan.ranges:
            found[r.partition] = self._rows(r.partition, r.first_seq - 1, r.last_seq, r.last_seq - r.first_seq + 1)
            beat()
        if sum(map(len, found.values())) != sum(r.last_seq - r.first_seq + 1 for r in plan.ranges):
            raise errors.InvariantViolation(f"rows of plan {plan.plan_id} are gone")
        return self._block(found)

    def _block(self, rows: Mapping[int, list[Row]]) -> PlacedBlock:
        return PlacedBlock(rows, self._tables)

    def _next(self) -> dict[int, list[Row]]:
        """The next rows of every partition that has more; what is read counts as taken."""
        found: dict[int, list[Row]] = {}
        room = limits.PLACED_ROWS_BLOCK_MAX
        for partition, end in sorted(self._ends().items()):
            if end > self._last[partition] and room > 0:
                rows = found[partition] = self._rows(partition, self._last[partition], end, room)
                self._last[partition] = rows[-1][1]
                room -= len(rows)
        return found


def look_again_in_s(idle_s: float) -> float:
    """How long to wait for rows where none has come for so long: an idle feed looks as often as it beats."""
    is_idle = idle_s > limits.PLACED_ROWS_IDLE_AFTER_S
    return limits.SINK_HEARTBEAT_MS / 1_000 if is_idle else limits.PLACED_ROWS_POLL_S


class PlacedBlock:
    """Rows by partition, each in order of its places."""

    def __init__(self, rows: Mapping[int, list[Row]], tables: Sequence[str]) -> None:
        self._rows = dict(sorted(rows.items()))
        self._names = tables
        self.records = sum(map(len, rows.values()))

    def ranges(self) -> tuple[Range, ...]:
        """The run of each partition; a place is its offset, too."""
        ends = [(partition, rows[0][1], rows[-1][1]) for partition, rows in self._rows.items()]
        return tuple(Range(partition=p, first_offset=a, last_offset=b, first_seq=a, last_seq=b) for p, a, b in ends)

    def sha256(self) -> bytes:
        """The digest of all that the rows say."""
        whole = hashlib.sha256()
        for rows in self._rows.values():
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
        found: dict[str, list[Any]] = {name: [] for name in self._names}
        for partition, rows in self._rows.items():
            found[self._names[partition]] += rows
        return found
