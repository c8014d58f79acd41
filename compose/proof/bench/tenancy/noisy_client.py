"""The client of a noisy tenant, in a process of its own: in that of the others their commands would leave late."""

from __future__ import annotations

import multiprocessing
import time
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer

from compose.proof import limits
from compose.stack.errors import StackError
from sinks import limits as sinks_limits
from sinks.kafka.delivery import Letter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from multiprocessing.connection import Connection

#: when it is due, in seconds since all began, and the letter
Timed = tuple[float, Letter]
_MS: Final = 1_000


class NoisyClient:
    """One process and its connection to Kafka; it ends with the one that started it."""

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        """``configuration`` of its producer has credentials: never log it."""
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, configuration), name="bench-noisy", daemon=True)
        self._process.start()
        theirs.close()

    def begin(self, began: float, timed: Sequence[Timed]) -> None:
        """Sends each at its time, by ``time.perf_counter``: one clock for all processes of the machine."""
        self._pipe.send((began, timed))

    def finish(self) -> None:
        """Returns when Kafka has all. Raises StackError."""
        try:
            is_sent = self._pipe.poll(limits.BENCH_TENANCY_WAIT_S) and self._pipe.recv()
        except EOFError:
            raise StackError("the benchmark's noisy client ended before it had sent all") from None
        if not is_sent:
            raise StackError("Kafka did not take the benchmark's commands; see 'millrace logs kafka'")

    def close(self) -> None:
        """It ends, whatever is left to send."""
        self._pipe.close()
        self._process.terminate()
        self._process.join()


def sent_on_time(producer: Producer, began: float, timed: Sequence[Timed]) -> list[float]:
    """Hands each to the producer at its time, on an open schedule; by how many seconds each left late."""
    late: list[float] = []
    for at, (topic, value, key, _, headers) in timed:
        while (left := began + at - time.perf_counter()) > 0:
            time.sleep(left)  # until it is due: nothing else is waited for
        late.append(-left)
        producer.produce(topic, value, key, headers=headers)
        producer.poll(0)
    return late


def _serve(pipe: Connection, configuration: dict[str, Any]) -> None:
    producer = Producer(configuration)
    while True:
        try:
            began, timed = pipe.recv()
        except EOFError:
            return
        sent_on_time(producer, began, timed)
        pipe.send(producer.flush(sinks_limits.KAFKA_DELIVERY_TIMEOUT_MS / _MS) == 0)
