"""What was appended to topics since one looked: of each partition the newest records, at most so many."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin._listoffsets import OffsetSpec

from schemas.errors import Unavailable
from sinks import limits
from sinks.kafka.admin import KafkaAdmin

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from confluent_kafka import Message

    from sinks.kafka.connection import KafkaConnection

Place = tuple[str, int]  # topic and partition, as the cluster calls them
_AT_ONCE: Final = 500


class AppendedRecords:
    """Of some topics, for one process. Positions are nobody's but its own: the first look is at what is newest then.

    While nothing comes a look is one question, and no consumer lives.
    """

    def __init__(
        self, kafka: KafkaConnection, topics: Mapping[str, int], client_id: str, group: str, records_max: int
    ) -> None:
        """``topics``: how many partitions each has; ``group`` is one that this process may name, and is not joined."""
        self._prefix = kafka.prefix
        self._places = [(kafka.topic(name), p) for name, partitions in topics.items() for p in range(partitions)]
        self._settings = kafka.consumer(
            client_id, group, **{"auto.offset.reset": "earliest", "enable.partition.eof": True}
        )
        self._admin_settings = kafka.admin() | {"client.id": client_id, "log_level": 2}
        self._admin: KafkaAdmin | None = None
        self._records_max = records_max
        self._read_to: dict[Place, int] = {}

    def seen(self) -> frozenset[str]:
        """The topics of this installation that the cluster shows to this user: it may read or write each of them.

        Raises Unavailable.
        """
        try:
            found = self._client().list_topics(timeout=limits.KAFKA_ADMIN_TIMEOUT_S).topics
        except KafkaException as error:
            raise _away(error) from error
        return frozenset(name.removeprefix(self._prefix) for name in found if name.startswith(self._prefix))

    def read(self) -> Generator[tuple[str, Message]]:
        """Topics by their names in ``schemas.topics``, with records. They count as read when all of them were taken.

        Raises Unavailable when Kafka does not give them in time.
        """
        try:
            ends = self._ends()
            begins = {at: max(self._read_to.get(at, 0), end - self._records_max) for at, end in ends.items()}
            waiting = {at for at, begin in begins.items() if begin < ends[at]}
            if waiting:
                yield from self._between(waiting, begins, ends)
        except KafkaException as error:
            raise _away(error) from error
        self._read_to = ends

    def _between(
        self, waiting: set[Place], begins: dict[Place, int], ends: dict[Place, int]
    ) -> Generator[tuple[str, Message]]:
        consumer = Consumer(self._settings)  # for this once: it costs something while it lives
        deadline = time.monotonic() + limits.KAFKA_ADMIN_TIMEOUT_S
        try:
            consumer.assign([TopicPartition(*at, begins[at]) for at in waiting])
            while waiting:
                messages = consumer.consume(_AT_ONCE, max(0.0, min(1.0, deadline - time.monotonic())))
                if not messages and time.monotonic() > deadline:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 - its name
                for message in messages:
                    at = (message.topic() or "", message.partition() or 0)
                    if (error := message.error()) is None:
                        yield at[0].removeprefix(self._prefix), message
                    elif error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - its name
                        raise KafkaException(error)
                    if error is not None or (message.offset() or 0) >= ends[at] - 1:
                        waiting.discard(at)
        finally:
            consumer.close()

    def _ends(self) -> dict[Place, int]:
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # as the wheel has it
        places = {TopicPartition(*at): latest for at in self._places}
        asked = self._client().list_offsets(places, request_timeout=limits.KAFKA_ADMIN_TIMEOUT_S)
        return {(at.topic, at.partition): int(future.result().offset) for at, future in asked.items()}

    def _client(self) -> KafkaAdmin:
        self._admin = self._admin or KafkaAdmin(self._admin_settings)
        return self._admin


def _away(error: KafkaException) -> Unavailable:
    return Unavailable(f"Kafka does not tell what was appended: {error.args[0].str()}")
