"""The metrics of followers; each comment says what a high value means."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

import structlog
from prometheus_client import REGISTRY, Gauge
from prometheus_client import Counter as MetricCounter

from sinks.streams.intake import REASONS, Halt, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prometheus_client import CollectorRegistry

_log = structlog.get_logger(__name__)


class _Meters:
    """The metrics of all followers of a process; each follower is a label."""

    def __init__(self, registry: CollectorRegistry) -> None:
        # Above zero: a partition stands still until somebody acts; /readyz and the log say what to do. Alarm on it.
        self.halted = Gauge(
            "millrace_stream_halted", "Partitions that stand still", ("follower", "reason"), registry=registry
        )
        # High: Postgres or Kafka is away, or processes take partitions from each other.
        self.restarts = MetricCounter(
            "millrace_stream_restarts", "Times a follower began again", ("follower",), registry=registry
        )
        # Above zero: records are missing in the follower's results, and nothing brings them back. Alarm on any.
        self.missed = MetricCounter(
            "millrace_stream_missed",
            "Times records were passed unread",
            ("follower", "reason"),
            registry=registry,
        )


_meters = cache(_Meters)


def missed(follower: str, reason: Reason, words: str) -> None:
    """Counts and logs records that were passed in a stream that nobody can publish again."""
    _meters(REGISTRY).missed.labels(follower, reason).inc()
    _log.error("stream_records_missed", follower=follower, reason=reason, told=words)


class FollowerMetrics:
    """Counts the partitions of one follower that stand still, and logs once why."""

    def __init__(self, follower: str, registry: CollectorRegistry = REGISTRY) -> None:
        meters = _meters(registry)
        self._follower = follower
        self._told: dict[int, Halt] = {}
        self._halted = meters.halted
        self.restarts = meters.restarts.labels(follower)
        self.halted({})

    def halted(self, halts: Mapping[int, Halt]) -> None:
        """Sets which partitions stand still now."""
        for partition, halt in halts.items():
            if self._told.get(partition) != halt:
                _log.error("stream_halted", follower=self._follower, partition=partition, reason=halt.words)
        self._told = dict(halts)
        counts = Counter(halt.reason for halt in halts.values())
        for reason in REASONS:
            self._halted.labels(self._follower, reason).set(counts[reason])
