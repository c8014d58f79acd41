"""The contract between a service and the owner runtime. The runtime knows no service; a service knows no Kafka."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from msgspec import Struct

from dataflows.owner.batch import Statement
from schemas import stored_answer
from schemas.records import Command, Denial, Rejection
from schemas.service import Service

# The code of an answer that is not stored: the same identity must work through its right partition.
MISROUTED: Final = Denial("misrouted", "The command lies in a partition that does not own its aggregate.", {})


class NewEvent(Struct):
    """An event of a decision, before it has its place in the stream."""

    version: int  # of the aggregate
    scope: str  # who may see it
    body: dict[str, Any]  # records as dicts or as their Structs
    type: str = ""  # the name of one of the service's event types; "" = the first


class Committed(Struct):
    """A decision to be committed: the public result and its events. The answer names the first event."""

    result: dict[str, Any] | Callable[[], dict[str, Any]]  # or what makes it, called at once or never
    events: tuple[NewEvent, ...]  # one at least
    rendering: int = stored_answer.WHOLE  # the service's rendering that makes this result from the first event

    def shown(self) -> dict[str, Any]:
        """The public result."""
        return self.result if isinstance(self.result, dict) else self.result()


class Workspace(Protocol):
    """The aggregates of one batch in memory. Commands fold into them in order; each is written once."""

    def decide(self, command: Command, offset: int, now: int) -> Committed | Rejection:
        """Folds in one command. Pure apart from this workspace. May raise; then the batch is retried."""

    def writes(self) -> list[Statement]:
        """All changes of the batch as set-based statements. A missed compare-and-set must fail the transaction.

        The texts always have the same order. A text whose parameters are columns and counts is sent once for a round.
        """

    def committed(self) -> None:
        """Called once, after the commit, and only if there was one."""


class PartitionState(Protocol):
    """A service's part of one owned partition, for as long as it is owned."""

    def reads(self, keys: list[str], commands: Sequence[Command]) -> list[Statement]:
        """The queries that load the aggregates (``keys``) of a batch of commands, for the first round trip.

        Equal queries of several partitions are asked once, so ``begin`` may get rows of other partitions, too.
        """

    def begin(self, rows: Sequence[list[tuple[Any, ...]]]) -> Workspace:
        """A workspace over the rows of the last ``reads``, in the order of its queries.

        No rows where the batch has no command that may be decided: then nothing was asked.
        """


class OpenPartition(Protocol):
    """Makes the state of a partition that was just taken."""

    def __call__(self, connection: Any, partition: int) -> PartitionState:
        """Reads what the service needs before its first batch, over the reader's own ``connection``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedService:
    """One service as the runtime sees it: its declarations, and how to open one of its partitions."""

    declared: Service
    open_partition: OpenPartition

    @property
    def name(self) -> str:
        """Its name in logs, metrics and consumer groups."""
        return self.declared.name

    @property
    def takes_turns(self) -> bool:
        """Whether its callers take turns within a partition."""
        return self.declared.takes_turns

    @property
    def commands_topic(self) -> str:
        """The topic of its commands."""
        return self.declared.commands_topic

    @property
    def events_topic(self) -> str:
        """The topic of its events."""
        return self.declared.events_topic

    @property
    def dictionary(self) -> int:
        """By which its events are compressed where they are stored."""
        return self.declared.dictionary

    @property
    def dead_letters_topic(self) -> str:
        """The topic of copies of its parked records."""
        return self.declared.dead_letters_topic
