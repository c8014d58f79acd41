"""Where the topics of commands end, as Kafka says it; what an owner has not committed of them is its lag."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from ingress import limits

if TYPE_CHECKING:
    from collections.abc import Collection

    from sinks.kafka.connection import KafkaConnection


class TopicEnds:
    """Asks Kafka for ends of partitions, over one connection that is made at the first question."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self._admin: AdminClient | None = None

    async def of(self, places: Collection[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The offset after the newest record of each partition that answered in time; none when Kafka is out."""
        if not places:
            return {}
        return await asyncio.to_thread(self._ask, places)

    def _ask(self, places: Collection[tuple[str, int]]) -> dict[tuple[str, int], int]:
        if self._admin is None:
            self._admin = AdminClient(self._connection.admin())
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the wheel's types stop short of it
        asked_of = {TopicPartition(self._connection.topic(topic), p): (topic, p) for topic, p in places}
        asked = self._admin.list_offsets(dict.fromkeys(asked_of, latest), request_timeout=limits.CONSOLE_LAG_WAIT_S)
        ends = {}
        for place, future in asked.items():
            try:
                ends[asked_of[place]] = int(future.result(limits.CONSOLE_LAG_WAIT_S).offset)
            except (KafkaException, TimeoutError):
                continue
        return ends
