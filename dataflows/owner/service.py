"""What a service gives to the owner runtime. The runtime knows no service; a service knows no Kafka, no transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from msgspec import Struct

from dataflows.owner.batch import Statement
from schemas.records import Command, Denial, Rejection

# An answer that is not stored: the same identity must work through the partition where it belongs.
MISROUTED: Final = Denial("misrouted", "The command lies in a partition that does not own its aggregate.", {})


class Committed(Struct):
    """A decision that will be committed: the public result, and the event's body."""

    result: dict[str, Any]
    version: int
    scope: str  # who may see the event
    event_body: dict[str, Any]  # records as dicts or as their Structs


class Workspace(Protocol):
    """The aggregates of one batch in memory: commands fold into them one after another, each is written once."""

    def decide(self, command: Command, offset: int, now: int) -> Committed | Rejection:
        """Folds one command in. Pure apart from this workspace; may raise, and then the batch is retried."""

    def writes(self) -> list[Statement]:
        """Everything that the batch changes, set-based. A missed compare-and-set must fail the transaction."""

    def committed(self) -> None:
        """Called once, after the commit and never without it."""


class PartitionState(Protocol):
    """A service's part of one owned partition, for as long as it is owned."""

    def reads(self, keys: list[str], commands: Sequence[Command]) -> list[Statement]:
        """The queries that load the aggregates (``keys``) of a batch of commands, for the first round trip."""

    def begin(self, rows: Sequence[list[tuple[Any, ...]]]) -> Workspace:
        """A workspace over what the queries of the last ``reads`` returned, in their order."""


class OpenPartition(Protocol):
    """Makes the state of a partition that was just acquired."""

    def __call__(self, connection: Any, partition: int) -> PartitionState:
        """Reads what the service must know before its first batch; ``connection`` is the reader's own."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One service as the runtime sees it."""

    name: str
    code: str  # one letter in its event ids
    commands_topic: str
    events_topic: str
    dead_letters_topic: str
    event_type: str
    event_schema_version: int
    event_record: str
    dead_letter_record: str
    open_partition: OpenPartition
