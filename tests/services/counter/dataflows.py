"""Counters as the owner runtime sees them: each read once and written once a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import structs

from dataflows.owner.batch import Statement
from dataflows.owner.service import MISROUTED, Committed, NewEvent, OwnedService
from schemas.records import Command, Rejection
from schemas.topics import partition_for
from sinks.postgres.arrays import Bigints, Count, Integers, Texts
from sinks.postgres.sql_files import queries
from tests.services.counter.domain import Counter, decide, rendered
from tests.services.counter.service import SERVICE

SQL: Final = queries("tests.services.counter", "owner.sql")


class CounterPartition:
    """One owned partition; nothing is remembered between batches."""

    def __init__(self, connection: object, partition: int) -> None:
        del connection
        self._partition = partition

    def reads(self, keys: list[str], commands: Sequence[Command]) -> list[Statement]:
        del commands
        return [(SQL["counters_read"], (Texts(keys),))]

    def begin(self, rows: Sequence[list[tuple[Any, ...]]]) -> CounterWorkspace:
        found = [Counter(**dict(zip(Counter.__struct_fields__, row, strict=True))) for row in (rows[0] if rows else [])]
        return CounterWorkspace(self._partition, {counter.id: counter for counter in found})


class CounterWorkspace:
    """The counters of one batch in memory."""

    def __init__(self, partition: int, known: dict[str, Counter]) -> None:
        self._partition = partition
        self._known = known
        self._read = {key: counter.version for key, counter in known.items()}
        self._changed: set[str] = set()

    def decide(self, command: Command, offset: int, now: int) -> Committed | Rejection:
        del offset
        if partition_for(command.aggregate_key, SERVICE.partitions) != self._partition:
            return MISROUTED
        before = self._known.get(command.aggregate_key)
        after = decide(before, command, now)
        if isinstance(after, Rejection):
            return after
        self._known[after.id] = after
        self._changed.add(after.id)
        added = after.value - (before.value if before else 0)
        body = {"label": after.label, "value": after.value, "added": added}
        events = [NewEvent(after.version, after.owner, body)]
        if after.state == "closed":
            events.append(NewEvent(after.version, after.owner, body, "counter_closed"))
        return Committed(rendered(after), tuple(events))

    def writes(self) -> list[Statement]:
        new = [self._known[key] for key in sorted(self._changed) if key not in self._read]
        old = [self._known[key] for key in sorted(self._changed) if key in self._read]
        found: list[Statement] = []
        if new:
            found.append((SQL["counters_insert"], (Integers([self._partition] * len(new)), *_columns(new))))
        if old:
            read = Bigints([self._read[counter.id] for counter in old])
            found.append((SQL["counters_update"], (*_columns(old), read, Count(len(old)))))
        return found

    def committed(self) -> None:
        """Nothing is remembered."""


def _columns(counters: list[Counter]) -> tuple[Any, ...]:
    columns = zip(*(structs.astuple(counter) for counter in counters), strict=True)
    return tuple(Texts(list(c)) if isinstance(c[0], str) else Bigints(list(c)) for c in columns)


OWNED: Final = OwnedService(declared=SERVICE, open_partition=CounterPartition)
