"""Reads what lies ready on a consumer, and waits for it without looking again and again while nothing comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sinks import limits

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message


def gathering(gather_ms: int) -> dict[str, object]:
    """Settings of a consumer that gets the first record at once, and those behind it with one fetch so much later.

    What was fetched and not yet read puts the next fetch off. To pause and resume partitions instead takes a second:
    librdkafka fetches them again when its thread looks for the next time.
    """
    return {
        "queued.min.messages": 1,
        "fetch.queue.backoff.ms": gather_ms,
        "fetch.message.max.bytes": limits.GATHERED_FETCH_BYTES_MAX,
    }


def next_messages(consumer: Consumer, messages_max: int, idle_s: float, gather_s: float = 0.0) -> list[Message]:
    """Nothing after ``idle_s`` without a message; else the first one, with what comes within ``gather_s`` behind it.

    Raises KafkaException.
    """
    first = consumer.poll(idle_s)
    if first is None:
        return []
    return [first, *(consumer.consume(messages_max - 1, gather_s) if messages_max > 1 else ())]
