"""Decisions about parked commands by somebody at the console; ``millrace parked`` decides by the same function.

The decision is durable before a command that is retried is produced. Killed in between, or with Kafka away, it stays in
the queue and is retried again: its identity has one effect, however often it lies in the topic.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer

from schemas import errors
from sinks.kafka.delivery import parked_letter, why_not_delivered

if TYPE_CHECKING:
    from ingress.http.store import Store
    from sinks.kafka.connection import KafkaConnection

#: what a form says, and what the record is then
DECISIONS: Final = {"retry": "retried", "discard": "discarded"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a parked record lay: its identity."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


class ParkedCommands:
    """Decides over a store whose commits wait for the disk."""

    def __init__(self, store: Store, kafka: KafkaConnection) -> None:
        self._store = store
        self._kafka = kafka

    async def decide(self, place: Place, decision: str, person: str, note: str) -> None:
        """The command lies in its topic again, or is given up for ever; its object works again either way.

        Raises InvalidCommand, NotFound, StateConflict, or Unavailable when Kafka did not take it.
        """
        if decision not in DECISIONS:
            raise errors.InvalidCommand([{"field": "decision", "reason": "must be one of retry, discard"}])
        where = {"topic": place.topic, "partition": place.partition, "offset": place.offset}
        asked: dict[str, Any] = {"state": DECISIONS[decision], "actor": person, "note": note}
        ((word, aggregate_key, record),) = await self._store.rows("parked_decide", where | asked)
        if word == "not_found":
            raise errors.NotFound
        if word != DECISIONS[decision]:
            raise errors.StateConflict(f"The command is {word.removeprefix('is_')} already.")
        if decision == "retry":
            letter = parked_letter(self._kafka, place.topic, place.partition, aggregate_key, bytes(record))
            producer = Producer(self._kafka.producer("console"))
            if (reason := await asyncio.to_thread(why_not_delivered, self._kafka, producer, [letter])) is not None:
                raise errors.Unavailable("Kafka did not take the command; retry it again.", cause=reason)
            await self._store.rows("parked_republished", where)
