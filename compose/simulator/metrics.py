"""What the simulator counts; every name here, with what a high value means."""

from __future__ import annotations

from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, generate_latest


class SimulatorMetrics:
    """The metrics of one simulator process."""

    CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._registry = registry
        # High `failed`: callers capture or void what is no longer held.
        self.executed = Counter(
            "simulator_operations_executed",
            "Operations that entered the book",
            ("kind", "status"),
            registry=registry,
        )
        # High: callers retry a lot, or answers are lost on purpose.
        self.replayed = Counter("simulator_operations_replayed", "Sends answered from the book", registry=registry)
        # High: cards with fault modes are in use; by what left the processor in place of the truth.
        self.faults = Counter("simulator_faults", "Answers spoiled on purpose", ("answer",), registry=registry)
        # High: many requests share a commit, that is, the disk is slow or the load heavy.
        self.batch_operations = Histogram(
            "simulator_commit_batch_operations",
            "Sends and queries per durable commit",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
            registry=registry,
        )

        # High `away`: the receiver is down. High `refused`: it does not take what we sign, or cannot store it.
        self.webhooks = Counter("simulator_webhooks", "Deliveries tried, by outcome", ("outcome",), registry=registry)
        # High: the receiver is slow or away; nothing is lost.
        self.webhooks_waiting = Gauge("simulator_webhooks_waiting", "Deliveries still to be made", registry=registry)

    def exposition(self) -> bytes:
        """The registry in Prometheus' text format."""
        return generate_latest(self._registry)
