"""Reads what lies ready on a consumer, and waits for it without looking again and again while nothing comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message


def next_messages(consumer: Consumer, messages_max: int, idle_s: float, gather_s: float = 0.0) -> list[Message]:
    """Nothing after ``idle_s`` without a message; else the first one, with what comes within ``gather_s`` behind it.

    Raises KafkaException.
    """
    first = consumer.poll(idle_s)
    if first is None:
        return []
    return [first, *(consumer.consume(messages_max - 1, gather_s) if messages_max > 1 else ())]
