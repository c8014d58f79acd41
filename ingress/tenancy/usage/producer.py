"""Hands usage to Kafka (acks=all): a request is told of its events when all replicas have every one of them.

A record that Kafka did not take fails its request; those beside it may be there. The same events are sent again then,
and counted once.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException, Producer

from ingress import limits as ingress_limits
from schemas import errors
from schemas.senders import INGRESS
from schemas.tenancy import limits as tenancy_limits
from schemas.tenancy.usage_topic import USAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import KafkaError, Message

    from sinks.kafka.connection import KafkaConnection

Letter = tuple[str, bytes]  # key and value
_POLL_S: Final = 0.1


class _Sent:
    """The events of one request that are under way. Counted down by the thread that hears of acknowledgements."""

    def __init__(self, count: int, loop: asyncio.AbstractEventLoop) -> None:
        self.done: asyncio.Future[str] = loop.create_future()
        self._loop = loop
        self._left = count
        self._failure = ""

    def reported(self, error: KafkaError | None, _: Message) -> None:
        """Called once for each record."""
        self._left -= 1
        if error is not None:
            self._failure = error.str()
        if not self._left:
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        if not self.done.done():  # whoever waited is gone
            self.done.set_result(self._failure)


class UsageProducer:
    """One Kafka producer of one process, and the thread that hears its acknowledgements."""

    def __init__(self, kafka: KafkaConnection, client_id: str) -> None:
        self._kafka = kafka
        self._client_id = client_id
        self._producer: Producer | None = None
        self._stopping = threading.Event()
        self._sent = threading.Event()
        self._thread = threading.Thread(target=self._hear, name="usage-acks", daemon=True)

    def close(self) -> None:
        """Sends what is queued within the drain bound. Blocks: call it off the loop."""
        if self._producer is not None:
            self._producer.flush(ingress_limits.INGRESS_DRAIN_TIMEOUT_S)
            self._stopping.set()
            self._sent.set()
            self._thread.join()

    async def send(self, letters: Sequence[Letter]) -> None:
        """Returns when all replicas have all of them. Raises Overloaded, or Unavailable: then some may be there."""
        producer = self._begun()
        if len(producer) + len(letters) > tenancy_limits.USAGE_IN_FLIGHT_MAX:
            raise errors.Overloaded("Kafka takes usage more slowly than it comes; send the same events again.")
        sent = _Sent(len(letters), asyncio.get_running_loop())
        topic = self._kafka.topic(USAGE)
        try:
            for key, value in letters:
                signed = self._kafka.signed((INGRESS,), USAGE, key, value)
                producer.produce(topic, value=value, key=key, headers=signed, on_delivery=sent.reported)
        except (BufferError, KafkaException) as error:
            raise errors.Unavailable("Kafka did not take all of the usage; send the same events again.") from error
        finally:
            self._sent.set()
        if failure := await sent.done:
            raise errors.Unavailable("Kafka did not take all of the usage; send the same events again.", cause=failure)

    def _begun(self) -> Producer:
        """Made with the first event: most processes of a test never meter."""
        if self._producer is None:
            overrides = {
                "delivery.timeout.ms": ingress_limits.INGRESS_DELIVERY_TIMEOUT_MS,
                "linger.ms": ingress_limits.INGRESS_LINGER_MS,
            }
            self._producer = Producer(self._kafka.producer(self._client_id, **overrides))
            self._thread.start()
        return self._producer

    def _hear(self) -> None:
        while not self._stopping.is_set():
            self._sent.wait()
            self._sent.clear()
            while self._producer is not None and len(self._producer) and not self._stopping.is_set():
                self._producer.poll(_POLL_S)
