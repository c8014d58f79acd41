"""A block: the rows of a run of events per partition, and the digest that a restart must find again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sinks.clickhouse import rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from schemas.records import Event
    from sinks.streams.intake import Accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The exact place of a run of events: its first and last Kafka offset and seq."""

    partition: int
    first_offset: int
    last_offset: int
    first_seq: int
    last_seq: int


@dataclass(slots=True)
class _Run:
    first_offset: int
    first_seq: int
    last_offset: int
    last_seq: int
    events: list[Event] = field(default_factory=list)
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)


class Block:
    """Events that are inserted together. The same events make the same ranges, rows and digest."""

    def __init__(self) -> None:
        self._runs: dict[int, _Run] = {}
        self.events = 0

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
            self.events += 1

    def ranges(self) -> list[Range]:
        """Where the events lie, by partition."""
        return [
            Range(
                partition=partition,
                first_offset=run.first_offset,
                last_offset=run.last_offset,
                first_seq=run.first_seq,
                last_seq=run.last_seq,
            )
            for partition, run in sorted(self._runs.items())
        ]

    def sha256(self) -> bytes:
        """The digest of the events' bytes as they lie in Kafka: no change of our tables can alter it."""
        whole = hashlib.sha256()
        for partition, run in sorted(self._runs.items()):
            whole.update(partition.to_bytes(4, "big") + run.digest.digest())
        return whole.digest()

    def rows(self) -> rows.TableRows:
        """The rows of every table, by partition and seq."""
        made = rows.empty()
        for partition, run in sorted(self._runs.items()):
            for event in run.events:
                rows.add_event(made, partition, event)
        return made
