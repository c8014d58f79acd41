"""Leases as a dataflow, keyed by partition of the topic, with a state for each lease in it.

A restart reads on from the first report of the oldest open lease, and folding again ends in the same state.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from dataflows.limiter.leases.metrics import count
from dataflows.limiter.leases.reader import FOLLOWER, LeaseBatch, LeaseReader
from dataflows.limiter.leases.settler import LeaseSettler, Settled
from dataflows.streams.positioned_stream import PositionedStream
from schemas.limiter import topics
from sinks.kafka.topic_offsets import TopicOffsets
from sinks.streams.stand_by import StandBy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dataflows.streams.positioned_stream import Fold, Read
    from sinks.kafka.connection import KafkaConnection


class LeaseStream(PositionedStream[LeaseBatch, Settled]):
    """Settles leases until ``stop``."""

    def __init__(
        self, kafka: KafkaConnection, dsn: str, redis_url: str, client_id: str, *, encrypted: bool = False
    ) -> None:
        super().__init__("leases", count, StandBy(dsn, FOLLOWER, topics.LEASES))
        self._kafka = kafka
        self._dsn = dsn
        self._redis_url = redis_url
        self._encrypted = encrypted
        self._client_id = client_id

    @contextmanager
    def opened(self) -> Iterator[tuple[Read[LeaseBatch], Fold[LeaseBatch, Settled]]]:
        """From the positions on."""
        offsets = TopicOffsets(self._kafka, topics.LEASES)
        with closing(LeaseSettler(self._dsn, self._redis_url, encrypted=self._encrypted)) as settler:
            begins = settler.begins(offsets.ask(settler.positions()).answer())
            with closing(LeaseReader(self._kafka, self._client_id, begins, offsets, settler.is_open)) as reader:
                yield settler.held(reader.read), settler.settle
