"""Hands commands to Kafka (acks=all) off the event loop; acknowledgements come back to it in batches.

Nearly every call waits for the decision, which follows the acknowledgement, so acknowledgements wake nobody. They are
gathered every ``_GATHER_S``, at once for a call that waits only for one, and whenever the loop asks.
"""

from __future__ import annotations

import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException, Producer

from ingress import limits
from schemas import errors
from schemas.avro import codec
from schemas.services import OPERATIONS

if TYPE_CHECKING:
    import asyncio

    from confluent_kafka import KafkaError, Message

    from ingress.commands.pending import Pending
    from sinks.kafka.connection import KafkaConnection

_GATHER_S: Final = 0.1


class CommandProducer:
    """One Kafka producer and the thread that hears its acknowledgements."""

    def __init__(self, connection: KafkaConnection, client_id: str, loop: asyncio.AbstractEventLoop) -> None:
        overrides = {
            "delivery.timeout.ms": limits.INGRESS_DELIVERY_TIMEOUT_MS,
            "linger.ms": limits.INGRESS_LINGER_MS,
        }
        self._producer = Producer(connection.producer(client_id, **overrides))
        self._connection = connection
        self._loop = loop
        self._reports: deque[tuple[Pending, bool, KafkaError | None, int, int]] = deque()
        self._awaited = 0  # unreported commands whose acknowledgement a call waits for; changed on the loop only
        self._sent = threading.Event()
        self._hurry = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-acks", daemon=True)

    def start(self) -> None:
        """Starts hearing acknowledgements."""
        self._thread.start()

    def close(self) -> None:
        """Sends what is queued within the drain bound, then stops. Blocks: call it off the loop."""
        self._producer.flush(limits.INGRESS_DRAIN_TIMEOUT_S)
        self._stopping.set()
        self._hurry.set()
        self._sent.set()
        self._thread.join()

    def send(self, pending: Pending, *, is_awaited: bool) -> None:
        """Queues one command and tells its pending of the acknowledgement or failure. Order per key is kept.

        ``is_awaited``: a call waits for the acknowledgement, so it is told at once.
        """
        command = pending.command
        operation, value = OPERATIONS[command.operation], codec.encode_command(command)
        signed = self._connection.signed(operation.senders, operation.topic, command.aggregate_key, value)
        try:
            self._producer.produce(
                self._connection.topic(operation.topic),
                value=value,
                key=command.aggregate_key,
                headers=[("trace_id", command.trace_id), *signed],
                on_delivery=partial(self._reported, pending, is_awaited),
            )
        except BufferError:
            pending.failed(errors.Overloaded("Kafka takes commands more slowly than they come; try again."))
        except KafkaException as error:
            pending.failed(errors.Unavailable(cause=str(error)))
        else:
            if is_awaited:
                self._awaited += 1
                self._hurry.set()
            self._sent.set()

    def check(self) -> None:
        """Raises Unavailable when no broker answers. Blocks: call it off the loop."""
        try:
            self._producer.list_topics(timeout=limits.STORE_POOL_WAIT_S)
        except KafkaException as error:
            raise errors.Unavailable("Kafka does not answer.", cause=str(error)) from error

    def take_reports(self) -> None:
        """Passes Kafka's reports so far to their pendings. On the loop only."""
        self._producer.poll(0)
        while self._reports:
            pending, is_awaited, error, partition, offset = self._reports.popleft()
            self._awaited -= is_awaited
            if error is None:
                pending.acknowledged(partition, offset)
            else:
                pending.failed(errors.Unavailable("Kafka did not take the command in time.", cause=str(error)))

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._sent.wait()
            self._sent.clear()
            while len(self._producer) and not self._stopping.is_set():
                if not self._awaited:
                    self._hurry.wait(_GATHER_S)
                self._hurry.clear()
                self._producer.poll(_GATHER_S if self._awaited else 0)
                if self._reports:
                    self._loop.call_soon_threadsafe(self.take_reports)

    def _reported(self, pending: Pending, is_awaited: bool, error: KafkaError | None, message: Message) -> None:
        """Called once per command, by whoever polls."""
        self._reports.append((pending, is_awaited, error, message.partition() or 0, message.offset() or 0))
