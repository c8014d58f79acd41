"""The batch of an owner: records of one partition go in, committed results and events come out."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from schemas.errors import Corrupt
from schemas.records import Command, Outcome


class Record(Struct):
    """One record of a command topic: its offset, its bytes, and the decoded command or the decode error."""

    offset: int  # as the partition counts: Kafka's, plus the ``offset_base`` of the lease
    value: bytes
    command: Command | None = None
    fault: Corrupt | None = None
    leader_epoch: int | None = None  # of the leader that took it
    sender: str = ""  # who signed it
    refused: str | None = None  # why its sender may not send it; such a record is no command


class NoisyCaller(Struct, frozen=True):
    """A caller that made others of its partition wait, as measured over one window of time."""

    caller: str
    share: float  # of all work done in the window
    left: int  # the most units that waited at once


class PartitionBatch(Struct):
    """The records of one partition that are committed together: every offset from the first one to the last.

    Where callers take turns, some records in between may be left for a later round or be decided already.
    """

    partition: int
    records: list[Record]
    epoch: int  # of the lease under which they were read; under a later lease they are read again
    size: int = 0  # of the records, in bytes
    left: int | None = None  # the lowest offset that was read and is left for a later round
    noisy: list[NoisyCaller] = field(default_factory=list)  # found when they were taken

    @property
    def begins_at(self) -> int:
        """The lowest offset that no earlier batch decides."""
        first = self.records[0].offset
        return first if self.left is None else min(first, self.left)


class Reply(Struct):
    """What the waiting ingress hears about one command."""

    reply_to: int
    reply_id: int
    outcome: Outcome
    replayed: bool
    body: bytes


class Published(Struct):
    """One event as it goes to Kafka."""

    seq: int
    key: str
    payload: bytes


class CommittedBatch(Struct):
    """What leaves the owner after the commit, and only then."""

    partition: int
    epoch: int
    commands: int
    events: list[Published] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    parked: int = 0
    closes: bool = False  # the last piece of its PartitionBatch: once published, the partition's next batch may start


Statement = tuple[str, Any]  # SQL and its parameters
