"""Decisions of the past in the order of their time, over all partitions; bounded memory, each decision once.

The partition that is least far is read next, so what waits to be put in order is a reading or two of each.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np
from confluent_kafka import Consumer, KafkaException, TopicPartition

from limiter.spending.ring import ALLOWED, DUPLICATE
from limiter.stream.blocks import Block, decode
from schemas import errors
from schemas.limiter import limits as limiter_limits
from schemas.limiter import topics
from sinks import limits as sinks_limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sinks.kafka.connection import KafkaConnection

_LATE_US: Final = 60_000_000  # a decision that a killed gateway's successor sends later is not waited for
_READ_S: Final = 1.0
_US_PER_MS: Final = 1_000


class Past(NamedTuple):
    """One decision as it was made."""

    at_us: int
    key: str
    cost: int
    allowed: bool
    policy_id: str


class History:
    """The decisions between two times, and what could not be taken from the stream."""

    def __init__(self, kafka: KafkaConnection, from_us: int, to_us: int, topic: str = topics.DECISIONS) -> None:
        self._from_us, self._to_us = from_us, to_us
        self._cursors = [
            _Cursor(kafka, kafka.topic(topic), partition, from_us, to_us)
            for partition in range(topics.DECISIONS_PARTITIONS)
        ]
        self.repeated = 0  # retries: they consumed nothing
        self.summed = 0  # their policies' audit setting keeps no row of them
        self.at_us = from_us

    def close(self) -> None:
        """Leaves Kafka."""
        for cursor in self._cursors:
            cursor.close()

    def batches(self) -> Iterator[list[Past]]:
        """Decisions in order, some at a time. Raises errors.Unavailable when Kafka does not answer."""
        waiting: list[Past] = []
        while unfinished := [cursor for cursor in self._cursors if not cursor.is_finished]:
            waiting += self._read(min(unfinished, key=lambda cursor: cursor.at_us))
            until = min((cursor.at_us for cursor in self._cursors if not cursor.is_finished), default=self._to_us)
            self.at_us = max(self.at_us, min(until, self._to_us) - limiter_limits.LIMIT_DRY_RUN_SLACK_US)
            waiting.sort()
            ready = [past for past in waiting if past.at_us < self.at_us]
            waiting = waiting[len(ready) :]
            yield ready
        yield waiting

    def _read(self, cursor: _Cursor) -> list[Past]:
        found: list[Past] = []
        for block in cursor.read():
            part = block.after(cursor.counted.get(block.source, 0))
            cursor.counted[block.source] = part.until
            self.summed += sum(int(part.totals[name].sum()) for name in ("allowed", "denied"))
            records = part.records
            inside = (records["at"] >= self._from_us) & (records["at"] < self._to_us)
            is_repeated = records["flags"] & DUPLICATE != 0
            self.repeated += int(np.count_nonzero(inside & is_repeated))
            self.summed += int(np.count_nonzero(inside & (part.weights > 1) & ~is_repeated))
            chosen = records[inside & ~is_repeated & (part.weights == 1)]
            columns = (chosen[name].tolist() for name in ("at", "row", "cost", "flags"))
            for at, row, cost, flags in zip(*columns, strict=True):
                key, policy_id, _ = block.rows[row]
                found.append(Past(at, key, cost, bool(flags & ALLOWED), policy_id))
        return found


class _Cursor:
    """One partition."""

    def __init__(self, kafka: KafkaConnection, topic: str, partition: int, from_us: int, to_us: int) -> None:
        self._consumer = Consumer(kafka.consumer("limiter-dry-run", "limiter-dry-run"))
        self.counted: dict[str, int] = {}  # by source: how far its decisions were taken
        self.at_us = from_us  # blocks from here on carry what was decided before, by no more than the slack
        wanted = [from_us // _US_PER_MS, (to_us + _LATE_US) // _US_PER_MS]
        try:
            first, last = (self._offset(topic, partition, time_ms) for time_ms in wanted)
        except KafkaException as error:
            self._consumer.close()
            raise errors.Unavailable(f"Kafka does not answer: {error.args[0].str()}") from error
        self._heard_at = time.monotonic()
        self._end = last
        self._next = first
        self._consumer.assign([TopicPartition(topic, partition, first)])

    @property
    def is_finished(self) -> bool:
        """Whether everything of the time was read."""
        return self._next >= self._end

    def close(self) -> None:
        """Leaves Kafka."""
        self._consumer.close()

    def read(self) -> list[Block]:
        """The next blocks. Raises errors.Unavailable when none comes."""
        messages = self._consumer.consume(limiter_limits.LIMIT_SINK_MESSAGES_MAX, _READ_S)
        if messages:
            self._heard_at = time.monotonic()
        elif time.monotonic() - self._heard_at > sinks_limits.SINK_RECOVERY_READ_TIMEOUT_S:
            raise errors.Unavailable("Kafka does not give the decisions of that time")
        found = []
        for message in messages:
            offset, value, (_, time_ms) = message.offset(), message.value(), message.timestamp()
            if message.error() or offset is None or value is None:
                raise errors.Unavailable(f"Kafka: {message.error()}")
            self._next, self.at_us = offset + 1, max(self.at_us, time_ms * _US_PER_MS)
            try:
                found.append(decode(value))
            except msgspec.DecodeError:
                continue  # 'clickhouse_sink' has reported it
        return found

    def _offset(self, topic: str, partition: int, time_ms: int) -> int:
        wait_s = sinks_limits.KAFKA_ADMIN_TIMEOUT_S
        at = self._consumer.offsets_for_times([TopicPartition(topic, partition, time_ms)], timeout=wait_s)[0].offset
        if at >= 0:
            return int(at)
        marks = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=wait_s)
        if marks is None:
            raise errors.Unavailable("Kafka does not answer: no watermarks in time")
        return int(marks[1])
