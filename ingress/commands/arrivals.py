"""Tells that events have come: one consumer of a process wakes all of its streams and long polls.

It tells that something happened, never what. A listener that wakes reads Postgres from its own place, so a record that
comes twice, late or not at all costs a look and neither loses nor doubles an event. The consumer reads only while
somebody listens, from the ends that the topics have then.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from ingress import limits as ingress_limits
from sinks import limits as sinks_limits

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from confluent_kafka import Message

    from sinks.kafka.connection import KafkaConnection

_POLL_S: Final = 0.5
_log: Final = structlog.get_logger(__name__)


class Arrivals:
    """``listening`` on the loop; ``close`` off it. ``partitions``: how many each topic has."""

    def __init__(self, connection: KafkaConnection, client_id: str, partitions: Mapping[str, int]) -> None:
        self._connection = connection
        self._partitions = partitions
        self._names = {connection.topic(name): name for name in partitions}
        overrides = {"fetch.wait.max.ms": ingress_limits.RESULTS_FETCH_WAIT_MS}
        self._settings = connection.consumer(client_id, f"{client_id}-events", **overrides)
        self._listeners: dict[tuple[str, str], set[asyncio.Event]] = {}  # by topic and key; "" is every key
        self._wanted: Counter[str] = Counter()
        self._changed = threading.Event()
        self._stopping = threading.Event()
        self._reading: frozenset[str] = frozenset()  # topics of which no new record is missed
        self._begins: dict[tuple[str, int], int] = {}  # where reading of the assigned partitions began
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @contextmanager
    def listening(self, heard: asyncio.Event, topic: str, key: str = "") -> Iterator[None]:
        """Sets ``heard`` at every event of the aggregate ``key``, or of any. A listener clears it before it looks.

        It is also set when reading has begun: events from before need one more look.
        """
        self._listeners.setdefault((topic, key), set()).add(heard)
        self._wanted[topic] += 1
        if self._wanted[topic] == 1:
            self._read_wanted()
        try:
            yield
        finally:
            listeners = self._listeners[topic, key]
            listeners.discard(heard)
            if not listeners:
                del self._listeners[topic, key]
            self._wanted[topic] -= 1
            if not self._wanted[topic]:
                del self._wanted[topic]
                self._changed.set()

    def look_within_s(self, topic: str) -> float:
        """How long a listener waits before it looks without being woken: longer while no new record is missed."""
        if topic in self._reading:
            return ingress_limits.EVENTS_LOOK_UNASKED_S
        return ingress_limits.EVENT_POLL_INTERVAL_MS / 1_000

    def close(self) -> None:
        """Stops reading. Blocks: call it off the loop."""
        self._stopping.set()
        self._changed.set()
        if self._thread is not None:
            self._thread.join()

    def _read_wanted(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kafka-events", daemon=True)
            self._thread.start()
        self._changed.set()

    def _run(self) -> None:
        consumer = Consumer(self._settings)
        try:
            while not self._stopping.is_set():
                try:
                    self._round(consumer)
                except KafkaException as error:
                    self._reading = frozenset()
                    _log.warning("events_not_heard", cause=str(error))
                    self._stopping.wait(sinks_limits.STREAM_JOIN_AGAIN_S)
                    self._changed.set()
        finally:
            consumer.close()

    def _round(self, consumer: Consumer) -> None:
        if self._changed.is_set():
            self._changed.clear()
            self._assign(consumer, frozenset(self._wanted))
        if not self._reading:
            self._changed.wait()
            return
        first = consumer.poll(_POLL_S)
        if first is not None:
            self._hear([first, *consumer.consume(ingress_limits.RESULT_RECORDS_READ_MAX - 1, 0)])
            time.sleep(ingress_limits.EVENTS_GATHER_S)  # under load: fewer, larger looks

    def _assign(self, consumer: Consumer, wanted: frozenset[str]) -> None:
        """Reads the topics that are wanted now. Topics that are read already go on from where they are."""
        if wanted == self._reading:
            return
        read = consumer.position(consumer.assignment())
        at = self._begins | {(one.topic, one.partition): one.offset for one in read if one.offset >= 0}
        places = [
            TopicPartition(self._connection.topic(name), partition)
            for name in sorted(wanted)
            for partition in range(self._partitions[name])
        ]
        for place in places:
            known = at.get((place.topic, place.partition))
            if known is None:
                _, known = consumer.get_watermark_offsets(place, timeout=sinks_limits.KAFKA_ADMIN_TIMEOUT_S)
            place.offset = known
        consumer.assign(places)
        self._begins = {(place.topic, place.partition): place.offset for place in places}
        begun, self._reading = wanted - self._reading, wanted
        self._tell({(topic, None) for topic in begun})

    def _hear(self, messages: list[Message]) -> None:
        heard: set[tuple[str, str | None]] = set()
        for message in messages:
            topic = self._names.get(message.topic() or "")
            if (error := message.error()) is not None:
                _log.warning("events_read_failed", cause=str(error))
                heard |= {(name, None) for name in self._reading}  # look for what was missed
            elif topic is not None:
                heard.add((topic, (message.key() or b"").decode(errors="replace")))
        self._tell(heard)

    def _tell(self, heard: Collection[tuple[str, str | None]]) -> None:
        if heard and self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake, heard)

    def _wake(self, heard: Collection[tuple[str, str | None]]) -> None:
        """Wakes listeners, on the loop. Key None means every key of the topic."""
        everything = {topic for topic, key in heard if key is None}
        keys = {place for place in self._listeners if place[0] in everything}
        keys |= {(topic, key) for topic, key in heard if key is not None}
        for place in keys | {(topic, "") for topic, _ in heard}:
            for listener in self._listeners.get(place, ()):
                listener.set()


async def woken(event: asyncio.Event, within_s: float) -> bool:
    """Waits until the event is set; False if it was not in time."""
    try:
        async with asyncio.timeout(max(within_s, 0)):
            await event.wait()
    except TimeoutError:
        return False
    return True
