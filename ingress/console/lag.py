"""Ends of the command topics, asked of Kafka; an owner's lag is the part that it has not committed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin._listoffsets import OffsetSpec

from ingress import limits
from sinks.kafka.admin import KafkaAdmin

if TYPE_CHECKING:
    from collections.abc import Collection

    from sinks.kafka.connection import KafkaConnection


class TopicEnds:
    """Asks Kafka for ends of partitions, over one connection that is made at the first question."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self._admin: KafkaAdmin | None = None

    async def of(self, places: Collection[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The offset after the newest record of each partition that answered in time; none when Kafka is out."""
        if not places:
            return {}
        return await asyncio.to_thread(self._ask, places)

    def _ask(self, places: Collection[tuple[str, int]]) -> dict[tuple[str, int], int]:
        if self._admin is None:
            self._admin = KafkaAdmin(self._connection.admin())
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the wheel's types stop short of it
        asked_of = {TopicPartition(self._connection.topic(topic), p): (topic, p) for topic, p in places}
        asked = self._admin.list_offsets(dict.fromkeys(asked_of, latest), request_timeout=limits.CONSOLE_LAG_WAIT_S)
        ends = {}
        for place, future in asked.items():
            try:
                offset = int(future.result(limits.CONSOLE_LAG_WAIT_S).offset)
            except (KafkaException, TimeoutError):
                continue
            if offset >= 0:  # a broker that just started may not know it
                ends[asked_of[place]] = offset
        return ends
