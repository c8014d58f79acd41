"""Positions of one follower in Postgres, fenced: only the process that took a partition last may move its position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from schemas import errors
from sinks import limits
from sinks.postgres.session import INDEXED, NOT_HELD
from sinks.postgres.sql_files import queries
from sinks.streams.intake import Accepted, Position

if TYPE_CHECKING:
    import psycopg

_SQL: Final = queries("sinks.streams", "positions.sql")
#: session options of a connection that only stores positions
SESSION: Final = (
    f"{INDEXED} {NOT_HELD} -c synchronous_commit=on -c statement_timeout={limits.POSTGRES_STATEMENT_TIMEOUT_MS}"
)


@dataclass(frozen=True, slots=True)
class Taken:
    """The next events of one partition, and the right to store the position after them."""

    partition: int
    epoch: int
    seq_before: int
    events: Sequence[Accepted]
    position: Position  # after the last of them

    def and_then(self, later: Taken) -> Taken:
        """Both in one; only the later position is stored, and the earlier events are done."""
        return Taken(self.partition, later.epoch, self.seq_before, later.events, later.position)


@dataclass(frozen=True, slots=True)
class Claim:
    """A partition that we took: the position to go on from, and the topic in which it was read."""

    epoch: int
    position: Position
    topic_id: str


class StreamPositions:
    """The rows of one follower of one topic. Every method may raise psycopg.OperationalError."""

    def __init__(self, follower: str, topic: str, holder: str) -> None:
        self._fixed = {"follower": follower, "topic": topic, "holder": holder}

    def known(self, connection: psycopg.Connection, partitions: Sequence[int]) -> dict[int, Position]:
        """The positions of those of these partitions that were followed before."""
        rows = self._rows(connection, "positions_read", partitions=list(partitions))
        return {partition: Position(offset, seq) for partition, offset, seq in rows}

    def committed(self, connection: psycopg.Connection, partitions: Sequence[int]) -> dict[int, int]:
        """The seq of the newest event that the database has, by partition, where it has one."""
        rows = self._rows(connection, "positions_committed", partitions=list(partitions))
        return {partition: seq for partition, seq in rows if seq is not None}

    def claim(self, connection: psycopg.Connection, starts: Mapping[int, Position], topic_id: str) -> dict[int, Claim]:
        """Takes partitions and fences their previous holders. A start counts only where nothing was followed yet."""
        rows = self._rows(
            connection,
            "positions_claim",
            partitions=list(starts),
            next_offsets=[at.next_offset for at in starts.values()],
            last_seqs=[at.last_seq for at in starts.values()],
            topic_id=topic_id,
        )
        return {partition: Claim(epoch, Position(offset, seq), topic) for partition, epoch, offset, seq, topic in rows}

    def advance(self, connection: psycopg.Connection, done: Sequence[Taken]) -> None:
        """Stores the positions after what is done, within the caller's transaction or in one of its own.

        Raises errors.Fenced if another process has taken one of the partitions; the caller must then not commit its
        transaction.
        """
        ordered = sorted(done, key=lambda taken: taken.partition)
        with connection.transaction():
            rows = self._rows(
                connection,
                "positions_advance",
                partitions=[taken.partition for taken in ordered],
                epochs=[taken.epoch for taken in ordered],
                seqs_before=[taken.seq_before for taken in ordered],
                next_offsets=[taken.position.next_offset for taken in ordered],
                last_seqs=[taken.position.last_seq for taken in ordered],
            )
            if len(rows) != len(ordered):
                raise errors.Fenced("another process follows these events now")

    def _rows(self, connection: psycopg.Connection, query: str, **parameters: object) -> list[tuple[Any, ...]]:
        return connection.execute(_SQL[query].encode(), {**self._fixed, **parameters}).fetchall()
