"""A service at the boundary: its topics, operations and events.

Everything else that a service gives (partitions, routes, invariants, projections) is found by its name in the folder
of each layer; ``schemas.services`` is the one list of services.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from msgspec import Struct

from schemas.operation import Operation
from schemas.topics import FOR_EVER, WEEK_MS, Topic, commands_topic, dead_letters_topic, events_topic

#: the dictionary of a service whose events the outbox keeps as they are published
NO_DICTIONARY: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EventType:
    """One kind of event: its public name, the Avro record that it travels as, and what is in it."""

    name: str
    record: str
    body: type[Struct] | None = None  # None: all versions of its schema lie in ``avro/`` as files
    doc: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A process of a service beside its owners. Its module has ``build`` (``dataflows.worker.contract``)."""

    name: str  # of the process, and of what it follows; unique over all services
    module: str
    role: str  # in Postgres: the migrations of its service say what it may do
    secrets: tuple[str, ...] = ()  # it needs further ones: "homes", "media_urls"; it is given no others
    processes: int = 1  # where ``MILLRACE_WORKER_PROCESSES`` says nothing of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """Makes the result of an answer again from the body of its event; for ever the same (``schemas.stored_answer``)."""

    schema_version: int  # of the event: an older one has not all that is shown
    result: Callable[[dict[str, Any]], Any]


@dataclass(frozen=True, kw_only=True)  # without slots: what is asked for every batch is made once
class Service:
    """One service. ``name`` is its word everywhere: topics, folders, tables, metrics."""

    name: str
    code: str  # one letter in its event ids
    doc: str  # what its aggregates are, for the list of topics
    read_scope: str  # the token scope that reads its objects, operations and events
    owner_role: str  # of its owners in Postgres: it writes the tables of this service and of the runtime, no others
    partitions: int
    operations: tuple[Operation, ...]
    records: tuple[type[Struct], ...] = ()  # whose columns SQL names (``sinks.postgres.column_lists``)
    event_types: tuple[EventType, ...]  # the first is that of an event which says nothing else
    further_topics: tuple[Topic, ...] = ()
    workers: tuple[Worker, ...] = ()
    takes_turns: bool = False  # callers of a partition: what one of them has too much of waits for the others
    renderings: Mapping[int, Rendering] = field(default_factory=dict)  # 1 to 31; how answers are made again
    dictionary: int = NO_DICTIONARY  # by which its events are compressed in the outbox (``schemas.stored_event``)
    wired: bool = False  # a module of ``compose.services`` starts its owners, as they need more than any owner
    further_read_scopes: tuple[str, ...] = ()  # others that read what became of their own commands
    home: str = ""  # the package that all its modules lie in; "" = a folder of its name in each layer

    @property
    def read_scopes(self) -> tuple[str, ...]:
        """Those that read what became of commands."""
        return (self.read_scope, *self.further_read_scopes)

    @cached_property
    def commands_topic(self) -> str:
        """Commands to its aggregates, keyed by aggregate_key."""
        return commands_topic(self.name)

    @cached_property
    def events_topic(self) -> str:
        """Its committed events, in commit order within a partition."""
        return events_topic(self.name)

    @cached_property
    def owner_group(self) -> str:
        """The consumer group of its owners: who is in it should own a partition."""
        return f"owner-{self.name}"

    @cached_property
    def dead_letters_topic(self) -> str:
        """Copies of the records that were parked."""
        return dead_letters_topic(self.name)

    @cached_property
    def operation_by_name(self) -> dict[str, Operation]:
        """Its operations, and no other's."""
        return {operation.name: operation for operation in self.operations}

    @cached_property
    def event_type_by_name(self) -> dict[str, EventType]:
        """Its event types; "" is the first."""
        return {"": self.event_types[0]} | {type_.name: type_ for type_ in self.event_types}

    def module(self, layer: str) -> str:
        """The module in which a layer (dataflows, ingress, sinks.clickhouse) finds what this service gives to it."""
        return f"{self.home}.{layer.rpartition('.')[2]}" if self.home else f"{layer}.{self.name}.service"

    def package(self, layer: str) -> str:
        """The package in which a layer finds files of this service: invariants, queries."""
        return self.home or f"{layer}.{self.name}"

    @property
    def topics(self) -> tuple[Topic, ...]:
        """All of its topics, as ``millrace up`` makes them."""
        return (
            Topic(
                name=self.commands_topic,
                partitions=self.partitions,
                retention_ms=WEEK_MS,
                doc=f"commands to {self.doc}, keyed by aggregate_key",
            ),
            Topic(
                name=self.events_topic,
                partitions=self.partitions,
                retention_ms=FOR_EVER,
                doc=f"committed events of {self.doc}, keyed by aggregate_key, in commit order",
            ),
            Topic(
                name=self.dead_letters_topic,
                partitions=self.partitions,
                retention_ms=FOR_EVER,
                doc="records that were parked, as they came; the table dead_letter is the truth",
            ),
            *self.further_topics,
        )
