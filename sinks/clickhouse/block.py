"""Blocks: what is inserted together, and what a restart must find again. That of events is here too."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from sinks.clickhouse.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Iterable

    from schemas.records import Event
    from sinks.clickhouse.declared_sink import DeclaredSink
    from sinks.clickhouse.insert import Inserter
    from sinks.clickhouse.tables import TableRows
    from sinks.streams.intake import Accepted


class Block(Protocol):
    """Records that are inserted together. The same records make the same block."""

    @property
    def records(self) -> int:
        """How many events, or decisions, it holds."""

    def ranges(self) -> tuple[Range, ...]:
        """Where its records lie, by partition."""

    def sha256(self) -> bytes:
        """The digest of the records' bytes as they lie in Kafka: no change of our tables can alter it."""

    def counts(self) -> dict[str, int]:
        """How many rows it has in every table."""

    def insert(self, inserter: Inserter, token: str) -> None:
        """Inserts its rows under the token. Raises errors.Unavailable; then each table's are in or not."""

    def complete(self, inserter: Inserter, token: str) -> int:
        """Inserts what a killed process may have left out, under its token; returns how many rows were missing."""

    def marked(self, plan_id: int) -> None:
        """Called in the transaction that marks its plan inserted, for what moves with it."""


@dataclass(slots=True)
class _Run:
    first_offset: int
    first_seq: int
    last_offset: int
    last_seq: int
    events: list[Event] = field(default_factory=list)
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)


class EventBlock:
    """Events of one sink; their rows follow from them alone."""

    def __init__(self, sink: DeclaredSink) -> None:
        self._sink = sink
        self._runs: dict[int, _Run] = {}
        self._rows: TableRows | None = None
        self.records = 0

    def add(self, accepted: Iterable[Accepted]) -> None:
        """Takes the next events of any partitions, each partition's in order."""
        for taken in accepted:
            seq = taken.event.seq
            run = self._runs.get(taken.partition)
            if run is None:
                run = self._runs[taken.partition] = _Run(taken.offset, seq, taken.offset, seq)
            run.last_offset, run.last_seq = taken.offset, seq
            run.digest.update(len(taken.value).to_bytes(4, "big") + taken.value)
            run.events.append(taken.event)
            self.records += 1
        self._rows = None

    def ranges(self) -> tuple[Range, ...]:
        """Where the events lie, by partition."""
        return tuple(
            Range(
                partition=partition,
                first_offset=run.first_offset,
                last_offset=run.last_offset,
                first_seq=run.first_seq,
                last_seq=run.last_seq,
            )
            for partition, run in sorted(self._runs.items())
        )

    def sha256(self) -> bytes:
        """The digest of the events' bytes as they lie in Kafka: no change of our tables can alter it."""
        whole = hashlib.sha256()
        for partition, run in sorted(self._runs.items()):
            whole.update(partition.to_bytes(4, "big") + run.digest.digest())
        return whole.digest()

    def rows(self) -> TableRows:
        """The rows of every table, by partition and seq."""
        if self._rows is None:
            self._rows = self._sink.no_rows()
            for partition, run in sorted(self._runs.items()):
                for event in run.events:
                    self._sink.add_event(self._rows, partition, event)
        return self._rows

    def counts(self) -> dict[str, int]:
        """How many rows it has in every table."""
        return {table: len(made) for table, made in self.rows().items()}

    def insert(self, inserter: Inserter, token: str) -> None:
        """Inserts each table's rows as one block."""
        inserter.insert(self.rows(), token)

    def complete(self, inserter: Inserter, token: str) -> int:
        """Looks which rows are there, and inserts the others."""
        return sum(inserter.complete(self.rows(), self.ranges(), token).values())

    def marked(self, plan_id: int) -> None:
        """Nothing but the positions moves."""
