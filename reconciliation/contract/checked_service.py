"""Where the streams of one service are: what check and replay compare."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.service import Service
from sinks.clickhouse.declared_sink import DeclaredSink
from sinks.clickhouse.services import sink_of_events


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedService:
    """A service, its topics and partitions, and its sink of ClickHouse, if it has one."""

    service: str
    commands_topic: str
    events_topic: str
    partitions: int
    sink: DeclaredSink | None

    @property
    def targets(self) -> tuple[str, ...]:
        """What can be replayed in ClickHouse: all of its tables at once, or one."""
        names = () if self.sink is None else tuple(table.name for table in self.sink.tables)
        return ("clickhouse", *(f"clickhouse.{name}" for name in names)) if names else ()


def checked(service: Service) -> CheckedService:
    """As it is declared."""
    return CheckedService(
        service=service.name,
        commands_topic=service.commands_topic,
        events_topic=service.events_topic,
        partitions=service.partitions,
        sink=sink_of_events(service.name),
    )
