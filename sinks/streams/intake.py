"""Decides which records of a stream of events are taken: exactly seq == last + 1. No I/O.

After a crash events are published again: a lower seq is a repetition and is dropped. A higher seq is a gap, and a
record that cannot be decoded may be the next event; the position stays before both, or their events would be lost.
If this were wrong, a follower would skip events and never know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from schemas import errors
from schemas.avro import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from schemas.records import Event

#: a position given by offset or time alone: the first event found there is taken, whatever its seq
UNKNOWN_SEQ: Final = -1

Reason = Literal["unknown_schema", "undecodable", "gap", "expired", "shorter", "other_topic", "database_older"]
REASONS: Final[tuple[Reason, ...]] = get_args(Reason)


@dataclass(slots=True)
class Position:
    """How far one partition was taken: the Kafka offset after the last event taken, and that event's seq."""

    next_offset: int = 0
    last_seq: int = 0


@dataclass(frozen=True, slots=True)
class Accepted:
    """One event taken from the stream, with its place and its bytes."""

    partition: int
    offset: int
    value: bytes
    event: Event


@dataclass(frozen=True, slots=True)
class Halt:
    """The reason why a partition stands still, and what to do about it."""

    reason: Reason
    words: str


class Intake:
    """The followed partitions, and those of them that stand still."""

    def __init__(self) -> None:
        self.positions: dict[int, Position] = {}
        self.halts: dict[int, Halt] = {}

    def begin(self, positions: Mapping[int, Position]) -> None:
        """Sets the positions of these partitions; others stay as they are."""
        for partition, at in positions.items():
            self.positions[partition] = Position(at.next_offset, at.last_seq)
            self.halts.pop(partition, None)

    def forget(self, partitions: Iterable[int]) -> None:
        """Stops following these partitions."""
        for partition in partitions:
            self.positions.pop(partition, None)
            self.halts.pop(partition, None)

    def is_halted(self, partition: int) -> bool:
        """Whether nothing more of the partition is taken.

        Events missing in a gap, or deleted unread, may be published again: reading goes on, and the next event is known
        by its seq. If no seq is known, the first event found would be taken, so the partition stands still.
        """
        halt = self.halts.get(partition)
        if halt is None or halt.reason == "gap":
            return False
        return halt.reason != "expired" or self.positions[partition].last_seq == UNKNOWN_SEQ

    def compare(self, partition: int, low: int, high: int) -> int | None:
        """The offset to read on from in a topic of ``low`` up to (not including) ``high``; None = stand still."""
        position = self.positions[partition]
        halt = standing_in_topic(partition, position, low, high)
        if halt is None:
            return position.next_offset
        self.halts[partition] = halt
        return None if self.is_halted(partition) else low

    def take(self, partition: int, offset: int, value: bytes) -> Accepted | None:
        """The event of this record if it is the next one of its partition, otherwise None."""
        position = self.positions.get(partition)
        if position is None or self.is_halted(partition):
            return None
        try:
            event = codec.decode_event(value)
        except errors.Corrupt as error:
            self.halts[partition] = _unreadable(partition, offset, error)
            return None
        if event.seq == position.last_seq + 1 or position.last_seq == UNKNOWN_SEQ:
            position.next_offset, position.last_seq = offset + 1, event.seq
            self.halts.pop(partition, None)
            return Accepted(partition, offset, value, event)
        if event.seq > position.last_seq:
            self.halts.setdefault(partition, _gap(partition, offset, position.last_seq, event.seq))
        return None


def _unreadable(partition: int, offset: int, error: errors.Corrupt) -> Halt:
    if isinstance(error, errors.UnknownSchema):
        number = error.context.get("schema_id")
        words = f"upgrade this process: schema {number} is unknown (partition {partition}, offset {offset})"
        return Halt("unknown_schema", words)
    words = f"partition {partition}: the record at offset {offset} is no event: {error.public} Find out who wrote it"
    return Halt("undecodable", words)


def undecodable(partition: int, offset: int, why: str) -> Halt:
    """The halt at an unreadable record of a stream without events."""
    return Halt("undecodable", f"partition {partition}: the record at offset {offset} cannot be read: {why}")


def _gap(partition: int, offset: int, last_seq: int, seq: int) -> Halt:
    missing = f"event {last_seq + 1}" if seq == last_seq + 2 else f"events {last_seq + 1} to {seq - 1}"
    found = f"at offset {offset} comes event {seq}"
    return Halt("gap", f"partition {partition}: {missing} missing, {found}: its owner has to publish them again")


def standing_in_topic(partition: int, position: Position, low: int, high: int) -> Halt | None:
    """The halt if a topic that holds ``low`` up to (not including) ``high`` cannot be read from a position."""
    at = position.next_offset
    if at < low:
        words = f"partition {partition}: Kafka has deleted offsets {at} to {low - 1} before they were read here"
        return Halt("expired", f"{words}: publish their events again ('millrace partitions republish')")
    if at > high:
        words = f"partition {partition}: the topic ends at offset {high}, before our position {at}"
        return Halt(
            "shorter", f"{words}: records were lost, or the topic was made again; restore it, or set the position anew"
        )
    return None


def other_topic(partition: int) -> Halt:
    """The halt at a topic that has the name of the one that was read, but is another."""
    words = f"partition {partition}: the topic was deleted and made again since it was read"
    return Halt("other_topic", f"{words}: publish its events again, and set the position anew")


def older_database(partition: int, committed: int, told: int) -> Halt:
    """The halt if Kafka was told of newer events than the database has."""
    words = f"partition {partition}: Kafka was told of event {told}, and the database ends with {committed}"
    return Halt("database_older", f"{words}: it is a copy of an earlier moment; see 'millrace partitions list'")
