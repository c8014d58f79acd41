"""Positions in a topic of records without seqs, none of which may be passed over; fenced: who claimed last moves them.

Who has them says so now and then, for others that stand by. What is read next has to be there: in the topic that was
read, behind a record that the same leader took. Where it is not, the partition stands still until somebody sets its
position anew; the others go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dataflows.owner.partition.next_offset import Place, place_fault
from schemas import errors
from sinks.streams.held_positions import SQL, HeldPositions
from sinks.streams.intake import UNKNOWN_SEQ, Halt, Position, Reason
from sinks.streams.positions import StreamPositions

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg

    from sinks.kafka.topic_offsets import Held, TopicOffsets
    from sinks.streams.positions import Claim

_REASONS: Final[Mapping[str, Reason]] = {
    errors.CommandsExpired.code: "expired",
    errors.TopicShorter.code: "shorter",
    errors.TopicReplaced.code: "other_topic",
}
_TOLD: Final[Mapping[Reason, str]] = {
    "expired": "Kafka has deleted records from offset {at} on before they were read here",
    "shorter": "the topic has lost records that were read before offset {at}, and may have others in their place",
    "other_topic": "the topic was deleted and made again since it was read up to offset {at}",
}


class Begin(NamedTuple):
    """Where a partition is read from, or why it is not."""

    place: Place
    witness: int | None  # the leader that took the record before the place, which is read again; None: nobody knows
    fault: errors.InvariantViolation | None


class End(NamedTuple):
    """How far a partition was read."""

    next_offset: int
    leader_epoch: int | None  # of the leader that took the record before it


def halt_of(partition: int, place: Place, fault: errors.InvariantViolation) -> Halt:
    """What an operator is told of a partition that stands still."""
    reason = _REASONS[fault.code]
    told = _TOLD[reason].format(at=place.offset)
    return Halt(reason, f"partition {partition}: {told}: set the position anew (docs/operators.md)")


def begin_of(claim: Claim, witness: int | None, held: Held) -> Begin:
    """Where a partition is read from that Kafka holds so."""
    place = Place(claim.topic_id or None, claim.position.next_offset)
    if fault := place_fault(place, held):
        return Begin(place, None, fault)
    return Begin(Place(held.topic_id, place.offset), witness if place.offset > held.low else None, None)


class StrictPositions(HeldPositions):
    """The rows of one follower of one topic. Every method may raise psycopg.OperationalError."""

    def __init__(self, follower: str, topic: str, partitions: int, holder: str) -> None:
        super().__init__(follower, topic)
        self._rows = StreamPositions(follower, topic, holder)
        self._partitions = range(partitions)
        self._epochs: dict[int, int] = {}
        self._offsets: dict[int, int] = {}

    def claim(self, connection: psycopg.Connection[Any], topic: TopicOffsets) -> dict[int, Begin]:
        """Takes all partitions, and says where each goes on: whoever had them is fenced.

        Raises KafkaException when Kafka does not say what it holds, errors.Fenced when another process was behind us.
        """
        starts = {partition: Position(0, UNKNOWN_SEQ) for partition in self._partitions}
        claims = self._rows.claim(connection, starts, "")
        first = self._partitions[0]
        self._claimed(connection, first, claims[first].epoch)
        witnesses = dict(connection.execute(SQL["positions_witnesses"].encode(), self._named).fetchall())
        held = topic.ask(claims).answer()  # after the claim: nobody moves on from here
        begins = {p: begin_of(claim, witnesses.get(p), held[p]) for p, claim in claims.items()}
        self._epochs = {partition: claim.epoch for partition, claim in claims.items()}
        self._offsets = {partition: claim.position.next_offset for partition, claim in claims.items()}
        if new := [p for p, begin in begins.items() if not claims[p].topic_id and begin.fault is None]:
            given = {"topic_id": held[new[0]].topic_id, "partitions": new, "epochs": [self._epochs[p] for p in new]}
            connection.execute(SQL["positions_keep_topic"].encode(), self._named | given)
        return begins

    def advance(self, connection: psycopg.Connection[Any], ends: Mapping[int, End]) -> None:
        """Moves positions in the transaction that is open.

        Raises errors.Fenced when another process has taken one of the partitions, or somebody has set its position
        anew; then nothing may be committed.
        """
        partitions = sorted(ends)
        epochs = (ends[p].leader_epoch for p in partitions)
        columns = {
            "partitions": partitions,
            "epochs": [self._epochs[p] for p in partitions],
            "offsets_before": [self._offsets[p] for p in partitions],
            "next_offsets": [ends[p].next_offset for p in partitions],
            "leader_epochs": [-1 if epoch is None else epoch for epoch in epochs],
        }
        moved = connection.execute(SQL["positions_follow"].encode(), self._named | columns).fetchall()
        if len(moved) != len(ends):
            raise errors.Fenced("another process follows this stream now, or its position was set anew")
        self._offsets |= {partition: end.next_offset for partition, end in ends.items()}
