"""Events of a service for its sink: block by block, each partition's from where ClickHouse ends."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sinks import limits
from sinks.clickhouse.block import EventBlock
from sinks.kafka.topic_offsets import TopicOffsets
from sinks.streams.intake import Position
from sinks.streams.reader import EventReader, read_until

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    import psycopg

    from sinks.clickhouse.plans import Fence, Plan
    from sinks.clickhouse.sink import SinkSettings
    from sinks.streams.intake import Halt


def open_stream(
    settings: SinkSettings, connection: psycopg.Connection, reach: Callable[[str], None] = lambda _: None
) -> EventStream:
    """Over the sink's own topic; nothing but the reader of events is needed."""
    del connection, reach
    return EventStream(settings)


class EventStream:
    """Reads the events of one sink; one thread at a time may use it."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        self._reader = EventReader(
            settings.kafka,
            topic=settings.topic,
            client_id=settings.owner_id,
            group=f"sink-{settings.sink.name}",
            gather_ms=limits.SINK_GATHER_MS,
        )

    @property
    def halts(self) -> Mapping[int, Halt]:
        """The partitions that stand still, and why."""
        return self._reader.intake.halts

    def close(self) -> None:
        """Leaves Kafka."""
        self._reader.close()

    def begin(self, fence: Fence) -> None:
        """Goes to where ClickHouse ends. A partition stands still where the topic is another, or lacks what follows."""
        settings, partitions = self._settings, range(self._settings.partitions)
        self._reader.assign(fence.positions(partitions))
        held = TopicOffsets(settings.kafka, settings.topic).ask(partitions).answer()
        other = fence.in_other_topic(partitions, held[0].topic_id)
        self._reader.halt_what_is_not_there(other)

    def read(self, stop: threading.Event, plan_id: int) -> tuple[EventBlock | None, float]:
        """The events of one interval, counted from the first; None after an idle heartbeat interval."""
        del plan_id
        block, started = EventBlock(self._settings.sink), time.monotonic()
        deadline = started + limits.SINK_HEARTBEAT_MS / 1_000
        while block.records < limits.SINK_BLOCK_EVENTS_MAX and not stop.is_set():
            now = time.monotonic()
            if now >= deadline:
                break
            wait_s = min(
                limits.SINK_READ_TIMEOUT_MS / 1_000 if block.records else limits.KAFKA_IDLE_WAIT_S, deadline - now
            )
            taken = self._reader.read(limits.SINK_READ_MESSAGES_MAX, wait_s)
            if taken and not block.records:
                started = time.monotonic()
                deadline = started + limits.SINK_BLOCK_INTERVAL_MS / 1_000
            block.add(taken)
        return (block if block.records else None), started

    def again(self, plan: Plan, beat: Callable[[], None]) -> EventBlock:
        """The records of an open plan, read again. Raises errors.Unavailable when they do not come."""
        self._reader.assign({r.partition: Position(r.first_offset, r.first_seq - 1) for r in plan.ranges})
        block = EventBlock(self._settings.sink)
        ends = {r.partition: r.last_seq for r in plan.ranges}
        for taken in read_until(self._reader, ends, limits.SINK_RECOVERY_READ_TIMEOUT_S):
            block.add(taken)
            beat()
        return block
