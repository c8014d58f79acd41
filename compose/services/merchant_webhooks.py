"""Wires one sender of webhooks to merchants. Several run side by side: Postgres shares deliveries and the stream."""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING, Final

from compose.services.ops import serve_ops
from dataflows.payments.merchant_webhooks.intake import Intake
from dataflows.payments.merchant_webhooks.metrics import MerchantWebhookMetrics
from dataflows.payments.merchant_webhooks.sender import Sender
from dataflows.payments.merchant_webhooks.store import DeliveryStore
from dataflows.payments.merchant_webhooks.worker import MerchantWebhookWorker
from schemas import topics
from sinks.clickhouse.stream import EventReader

if TYPE_CHECKING:
    from compose.settings import Settings

ROLE: Final = "millrace_worker"
GROUP: Final = "merchant-webhooks"  # a name only: positions are kept in Postgres


def run(settings: Settings, instance: int) -> None:
    """Tells merchants until SIGTERM, then lets the sends under way end."""
    name = f"merchant-webhooks-{socket.gethostname()}-{os.getpid()}-{instance}"
    addresses = settings.addresses()
    metrics = MerchantWebhookMetrics()
    store = DeliveryStore(addresses.postgres_dsns[ROLE], name, settings.webhook_secret_keys(), metrics)
    reader = EventReader(addresses.kafka, topic=topics.EVENTS_PAYMENTS, client_id=name, group=GROUP)
    worker = MerchantWebhookWorker(
        store=store,
        intake=Intake(store, reader, metrics),
        sender=Sender(loopback=settings.merchant_webhooks_loopback),
        metrics=metrics,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: worker.stop())
    serve_ops(None, lambda: worker.is_ready or "Postgres is away")
    try:
        worker.run()
    finally:
        store.close()
