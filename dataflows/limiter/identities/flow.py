"""Identities as a dataflow, keyed by partition of the topic, with the charges of some minutes in each.

A restart reads on from the first block that may still meet another one, and finds again what it had found: that changes
nothing.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from dataflows.limiter.identities.metrics import count
from dataflows.limiter.identities.reader import FOLLOWER, ChargeBatch, ChargeReader
from dataflows.limiter.identities.refunder import LeaseRefunder, Refunded
from dataflows.streams.positioned_stream import PositionedStream
from schemas.limiter import topics
from sinks.kafka.topic_offsets import TopicOffsets
from sinks.streams.stand_by import StandBy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dataflows.streams.positioned_stream import Fold, Read
    from sinks.kafka.connection import KafkaConnection


class IdentityStream(PositionedStream[ChargeBatch, Refunded]):
    """Gives back until ``stop``."""

    def __init__(
        self, kafka: KafkaConnection, dsn: str, redis_url: str, client_id: str, *, encrypted: bool = False
    ) -> None:
        super().__init__("identities", count, StandBy(dsn, FOLLOWER, topics.IDENTITIES))
        self._kafka = kafka
        self._dsn = dsn
        self._redis_url = redis_url
        self._encrypted = encrypted
        self._client_id = client_id

    @contextmanager
    def opened(self) -> Iterator[tuple[Read[ChargeBatch], Fold[ChargeBatch, Refunded]]]:
        """From the positions on."""
        with (
            closing(LeaseRefunder(self._dsn, self._redis_url, encrypted=self._encrypted)) as refunder,
            closing(ChargeReader(self._kafka, self._client_id, self._begins(refunder))) as reader,
        ):
            yield refunder.held(reader.read), refunder.refund

    def _begins(self, refunder: LeaseRefunder) -> dict[int, int]:
        return refunder.begins(TopicOffsets(self._kafka, topics.IDENTITIES).ask(refunder.positions()).answer())
