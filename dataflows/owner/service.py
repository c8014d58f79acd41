"""The contract between a service and the owner runtime. The runtime knows no service; a service knows no Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from msgspec import Struct

from dataflows.owner.batch import Statement
from schemas import stored_answer
from schemas.records import Command, Denial, Rejection
from schemas.service import Service

# An answer that is not stored: the same identity must work through the partition where it belongs.
MISROUTED: Final = Denial("misrouted", "The command lies in a partition that does not own its aggregate.", {})


class NewEvent(Struct):
    """An event that a decision makes, before it has its place in the stream."""

    version: int  # of the aggregate
    scope: str  # who may see it
    body: dict[str, Any]  # records as dicts or as their Structs
    type: str = ""  # the name of one of the service's event types; "" = the first


class Committed(Struct):
    """A decision that will be committed: the public result, and its events. The first is named in the answer."""

    result: dict[str, Any]
    events: tuple[NewEvent, ...]  # one at least
    rendering: int = stored_answer.WHOLE  # the service's one that makes this result of the first event


class Workspace(Protocol):
    """The aggregates of one batch in memory: commands fold into them one after another, each is written once."""

    def decide(self, command: Command, offset: int, now: int) -> Committed | Rejection:
        """Folds one command in. Pure apart from this workspace; may raise, and then the batch is retried."""

    def writes(self) -> list[Statement]:
        """Everything that the batch changes, set-based. A missed compare-and-set must fail the transaction.

        The order of texts is always the same. With columns and counts for parameters a text is sent once for a round.
        """

    def committed(self) -> None:
        """Called once, after the commit and never without it."""


class PartitionState(Protocol):
    """A service's part of one owned partition, for as long as it is owned."""

    def reads(self, keys: list[str], commands: Sequence[Command]) -> list[Statement]:
        """The queries that load the aggregates (``keys``) of a batch of commands, for the first round trip.

        Equal queries of several partitions are asked as one: the rows of ``begin`` may be of other partitions, too.
        """

    def begin(self, rows: Sequence[list[tuple[Any, ...]]]) -> Workspace:
        """A workspace over what the queries of the last ``reads`` returned, in their order."""


class OpenPartition(Protocol):
    """Makes the state of a partition that was just acquired."""

    def __call__(self, connection: Any, partition: int) -> PartitionState:
        """Reads what the service must know before its first batch; ``connection`` is the reader's own."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedService:
    """One service as the runtime sees it: what it declares at the boundary, and how a partition of it is opened."""

    declared: Service
    open_partition: OpenPartition

    @property
    def name(self) -> str:
        """Its word in logs, metrics and names of groups."""
        return self.declared.name

    @property
    def takes_turns(self) -> bool:
        """Whether its callers take turns within a partition."""
        return self.declared.takes_turns

    @property
    def commands_topic(self) -> str:
        """Where its commands are read."""
        return self.declared.commands_topic

    @property
    def events_topic(self) -> str:
        """Where its events are published."""
        return self.declared.events_topic

    @property
    def dead_letters_topic(self) -> str:
        """Where copies of parked records are published."""
        return self.declared.dead_letters_topic
