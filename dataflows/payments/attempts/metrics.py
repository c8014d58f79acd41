"""What a worker counts; every name here, with what a high value means."""

from __future__ import annotations

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram


class AttemptMetrics:
    """The metrics of one worker process."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        # High: the processor is slow, or there is more work than the bulkhead lets through.
        self.in_flight = Gauge(
            "millrace_attempt_calls_in_flight", "Slots of the bulkhead in use", ("processor",), registry=registry
        )
        # 1: the processor is left alone but for a probe; attempts wait.
        self.breaker_open = Gauge(
            "millrace_attempt_breaker_open", "Circuit breaker is open", ("processor",), registry=registry
        )
        # High `Unknown`: payers wait for polls. High `NotSent`: the processor cannot be reached.
        self.answers = Counter(
            "millrace_attempt_answers",
            "Calls by what is known afterwards",
            ("processor", "call", "answer"),
            registry=registry,
        )
        # High: the processor is slow; payers feel every millisecond.
        self.call_seconds = Histogram(
            "millrace_attempt_call_seconds",
            "Duration of processor calls",
            ("processor", "call"),
            buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 3),
            registry=registry,
        )
        # High `unknown` or `manual_review`: money in doubt.
        self.facts = Counter("millrace_attempt_facts", "Facts made durable, by status", ("status",), registry=registry)
        # High: Kafka refuses facts; their attempts are queried again when the lease is over.
        self.facts_lost = Counter("millrace_attempt_facts_lost", "Facts that Kafka did not take", registry=registry)
        # High: owners lag or refuse facts.
        self.facts_repeated = Counter(
            "millrace_attempt_facts_repeated", "Facts told again for want of their event", registry=registry
        )
        # High: Postgres is away or refuses; nothing is leased meanwhile.
        self.store_errors = Counter(
            "millrace_attempt_store_errors", "Statements that failed and are repeated", registry=registry
        )
        # No growth for weeks: finished rows pile up.
        self.pruned = Counter("millrace_attempt_rows_pruned", "Finished dispatch rows removed", registry=registry)
        # High `due`: more workers are needed. `review` above zero: a person has to decide.
        self.backlog = Gauge("millrace_attempt_backlog", "Unfinished attempts", ("state",), registry=registry)
        self.oldest_seconds = Gauge(
            "millrace_attempt_oldest_seconds", "Age of the oldest unfinished attempt", ("state",), registry=registry
        )
