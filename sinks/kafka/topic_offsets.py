"""A topic as Kafka holds it: its id, which changes when the topic is made again, and the offsets of each partition."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin._listoffsets import OffsetSpec
from msgspec import Struct

from sinks import limits
from sinks.kafka.admin import KafkaAdmin
from sinks.kafka.connection import KafkaConnection

_EARLIEST: Final[OffsetSpec] = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # as the wheel has it
_LATEST: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class Held(Struct, frozen=True):
    """What Kafka holds of one partition: offsets from ``low`` up to, and without, ``high``."""

    topic_id: str
    low: int
    high: int


class Inquiry:
    """A question to Kafka that is under way: each part of it is put when the one before is answered.

    librdkafka (2.16) may crash the process when metadata arrive just as it is asked for offsets of a topic that it does
    not know (``rd_kafka_topic_partition_list_query_leaders_async``). So it is asked for the topic first.
    """

    def __init__(self, client: KafkaAdmin, topic: str, partitions: Iterable[int]) -> None:
        self._client = client  # it answers for as long as somebody holds it
        self._places = [TopicPartition(topic, partition) for partition in partitions]
        described = client.describe_topics(TopicCollection([topic]), request_timeout=limits.KAFKA_ADMIN_TIMEOUT_S)
        self._identity = described[topic]
        self._offsets: dict[OffsetSpec, dict[int, Future[Any]]] = {}

    def is_done(self) -> bool:
        """True when ``answer`` does not wait; whoever asks for that brings the question on. Never waits."""
        part: Iterable[Future[Any]] = [self._identity]
        for spec in (_EARLIEST, _LATEST):
            if not all(future.done() for future in part):
                return False
            if any(future.exception() for future in part):
                return True  # that is the answer
            part = self._asked(spec).values()
        return all(future.done() for future in part)

    def answer(self) -> dict[int, Held]:
        """What Kafka holds, by partition. Raises KafkaException when it does not say so in time."""
        deadline = time.monotonic() + limits.KAFKA_ADMIN_TIMEOUT_S

        def settled(future: Future[Any]) -> Any:
            try:
                return future.result(max(0.0, deadline - time.monotonic()))
            except FutureTimeoutError:
                raise _not_said() from None

        topic_id = str(settled(self._identity).topic_id)
        lows, highs = (
            {p: _offset(settled(future)) for p, future in self._asked(spec).items()} for spec in (_EARLIEST, _LATEST)
        )
        return {p: Held(topic_id, low, highs[p]) for p, low in lows.items()}

    def _asked(self, spec: OffsetSpec) -> dict[int, Future[Any]]:
        if spec not in self._offsets:
            places = dict.fromkeys(self._places, spec)
            asked = self._client.list_offsets(places, request_timeout=limits.KAFKA_ADMIN_TIMEOUT_S)
            self._offsets[spec] = {place.partition: future for place, future in asked.items()}
        return self._offsets[spec]


class Ends:
    """A question for the ends of partitions that is under way."""

    def __init__(self, client: KafkaAdmin, highs: dict[int, Future[Any]]) -> None:
        self._client = client  # as that of an inquiry
        self._highs = highs

    def is_done(self) -> bool:
        """True when ``answer`` may be asked for."""
        return all(future.done() for future in self._highs.values())

    def answer(self) -> dict[int, int]:
        """The end of each, as it was at some time since the question. Raises KafkaException when it was not said."""
        return {partition: _offset(future.result()) for partition, future in self._highs.items()}


def _offset(said: Any) -> int:
    """A broker that is killed or just started may answer without an offset, and without an error."""
    found = int(said.offset)
    if found < 0:
        raise _not_said()
    return found


def _not_said() -> KafkaException:
    return KafkaException(KafkaError(KafkaError._TIMED_OUT, "Kafka does not say what a topic holds."))  # noqa: SLF001 - its name


class TopicOffsets:
    """Asks Kafka what it holds of one topic."""

    def __init__(self, kafka: KafkaConnection, name: str) -> None:
        self._name = kafka.topic(name)
        self._admin = KafkaAdmin(kafka.admin() | {"log_level": 2})

    def ask(self, partitions: Iterable[int]) -> Inquiry:
        """Asks without waiting. Offsets only grow: what was read before the question lies within the answer."""
        return Inquiry(self._admin, self._name, partitions)

    def ask_ends(self, partitions: Iterable[int], timeout_s: float) -> Ends:
        """Asks for the ends alone, in one request, which waits behind no fetch; nor does this method wait."""
        places = {TopicPartition(self._name, partition): _LATEST for partition in partitions}
        asked = self._admin.list_offsets(places, request_timeout=timeout_s)
        return Ends(self._admin, {place.partition: future for place, future in asked.items()})
