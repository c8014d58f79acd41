"""What the webhook worker counts; every name here, with what a high value means."""

from __future__ import annotations

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge


class WebhookMetrics:
    """The metrics of one worker process."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        # High `parked`: events come long before what they speak of. Any `case`: a person has to look.
        self.steps = Counter("millrace_webhook_steps", "Events by the state they got", ("state",), registry=registry)
        # High: Kafka does not take facts; they are told again.
        self.untold = Counter("millrace_webhook_facts_untold", "Facts that Kafka did not take", registry=registry)
        # High: Postgres is away or refuses; nothing is claimed meanwhile.
        self.store_errors = Counter(
            "millrace_webhook_store_errors", "Rounds that Postgres did not let through", registry=registry
        )
        # None for a day on a busy system: the inbox only grows.
        self.pruned = Counter("millrace_webhook_events_pruned", "Settled events that left", registry=registry)
        # High `stored`: owners lag. High `parked`: attempts are not to be seen.
        self.backlog = Gauge("millrace_webhook_backlog", "Events that are not settled", ("state",), registry=registry)
        self.oldest_seconds = Gauge(
            "millrace_webhook_oldest_seconds",
            "Age of the oldest event that is not settled",
            ("state",),
            registry=registry,
        )
