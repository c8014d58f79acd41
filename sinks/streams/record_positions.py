"""Positions in a topic of records without seqs. Fenced: only the process that claimed them last may move them.

Who has them says so now and then, for others that stand by (``stand_by.py``).

Such a stream may read on past records that Kafka has deleted: its fold tells what is missing, and nothing waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from schemas import errors
from sinks.streams.held_positions import SQL, TAKEN, HeldPositions
from sinks.streams.intake import UNKNOWN_SEQ, Position, standing_in_topic
from sinks.streams.metrics import missed
from sinks.streams.positions import StreamPositions

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg

    from sinks.kafka.topic_offsets import Held
    from sinks.streams.positions import Claim


class RecordPositions(HeldPositions):
    """The rows of one follower of one topic. Every method may raise psycopg.OperationalError."""

    def __init__(self, follower: str, topic: str, partitions: int, holder: str) -> None:
        super().__init__(follower, topic)
        self._rows = StreamPositions(follower, topic, holder)
        self._follower = follower
        self._partitions = range(partitions)
        self._claims: dict[int, Claim] = {}

    def claim(self, connection: psycopg.Connection[Any]) -> dict[int, int]:
        """Takes all partitions and fences their previous holders. Returns the offset from which each goes on."""
        starts = {partition: Position(0, UNKNOWN_SEQ) for partition in self._partitions}
        self._claims = self._rows.claim(connection, starts, "")
        first = self._partitions[0]
        self._claimed(connection, first, self._claims[first].epoch)
        return {partition: claim.position.next_offset for partition, claim in self._claims.items()}

    def begin(self, connection: psycopg.Connection[Any], held: Mapping[int, Held]) -> dict[int, int]:
        """The places to read from. Records that Kafka has deleted are passed and counted.

        A topic that was made again is read from its beginning, which is counted, too: folds know what they read twice.
        """
        positions = {}
        for partition, claim in self._claims.items():
            is_other = claim.topic_id not in ("", held[partition].topic_id)
            if is_other:
                words = f"partition {partition}: the topic was deleted and made again: it is read from its beginning"
                missed(self._follower, "other_topic", words)
            positions[partition] = held[partition].low if is_other else claim.position.next_offset
        if new := [p for p, claim in self._claims.items() if claim.topic_id != held[p].topic_id]:
            columns = {"partitions": new, "next_offsets": [positions[p] for p in new]}
            given = {"topic_id": held[new[0]].topic_id, "epochs": [self._claims[p].epoch for p in new]}
            connection.execute(SQL["positions_of_topic"].encode(), self._named | columns | given)
        return readable(positions, held, self._follower)

    def advance(self, connection: psycopg.Connection[Any], next_offsets: Mapping[int, int]) -> None:
        """Moves positions, never back, in the open transaction.

        Raises errors.Fenced if another process has taken one of the partitions; then nothing may be committed.
        """
        ordered = dict(sorted(next_offsets.items()))
        columns = {"partitions": list(ordered), "next_offsets": list(ordered.values())}
        epochs = {"epochs": [self._claims[partition].epoch for partition in ordered]}
        moved = connection.execute(SQL["positions_move"].encode(), self._named | columns | epochs).fetchall()
        if len(moved) != len(ordered):
            raise errors.Fenced(TAKEN)


def readable(positions: Mapping[int, int], held: Mapping[int, Held], follower: str) -> dict[int, int]:
    """The places to read from. Records that Kafka has deleted are passed and counted."""
    begins = dict(positions)
    for partition, offset in positions.items():
        there = held[partition]
        if halt := standing_in_topic(partition, Position(offset, UNKNOWN_SEQ), there.low, there.high):
            missed(follower, halt.reason, halt.words)
            begins[partition] = there.low
    return begins
