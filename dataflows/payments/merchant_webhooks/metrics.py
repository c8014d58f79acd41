"""What the sender of merchants' webhooks counts; every name here, with what a high value means."""

from __future__ import annotations

from prometheus_client import REGISTRY, CollectorRegistry, Counter


class MerchantWebhookMetrics:
    """The metrics of one process."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self.planned = Counter("millrace_merchant_webhook_planned", "Deliveries made from events", registry=registry)
        # High `retry`: receivers are out. Any `given_up`: a merchant missed an event.
        self.tries = Counter(
            "millrace_merchant_webhook_tries", "Tries by what came of them", ("outcome",), registry=registry
        )
        self.disabled = Counter(
            "millrace_merchant_webhook_endpoints_disabled", "Endpoints that were given up", registry=registry
        )
        # Any: the key file is not the one that the secret was sealed with; its endpoint is told nothing until it is.
        self.secrets_unreadable = Counter(
            "millrace_merchant_webhook_secrets_unreadable", "Secrets that did not open", registry=registry
        )
        # High: Postgres or Kafka is away; nothing is lost, everything is late.
        self.outages = Counter("millrace_merchant_webhook_outages", "Rounds that failed", registry=registry)
