"""Wires one sender of webhooks to merchants. Several run side by side: Postgres shares deliveries and the stream."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Final

from compose.services.runnable_service import RunnableService, serve
from dataflows.payments.merchant_webhooks.intake import Intake
from dataflows.payments.merchant_webhooks.metrics import MerchantWebhookMetrics
from dataflows.payments.merchant_webhooks.sender import Sender
from dataflows.payments.merchant_webhooks.store import DeliveryStore
from dataflows.payments.merchant_webhooks.worker import MerchantWebhookWorker
from schemas.payments import topics
from sinks.clickhouse.stream import EventReader

if TYPE_CHECKING:
    from compose.settings.settings import Settings

ROLE: Final = "millrace_worker"
GROUP: Final = "merchant-webhooks"  # a name only: positions are kept in Postgres


def run(settings: Settings, instance: int) -> None:
    """Tells merchants until SIGTERM, then lets the sends under way end."""
    serve(build(settings, instance))


def build(settings: Settings, instance: int) -> RunnableService:
    """Tells merchants; Postgres is waited for."""
    name = f"merchant-webhooks-{socket.gethostname()}-{os.getpid()}-{instance}"
    addresses = settings.addresses()
    metrics = MerchantWebhookMetrics()
    store = DeliveryStore(addresses.postgres_dsns[ROLE], name, settings.webhook_secret_keys(), metrics)
    reader = EventReader(addresses.kafka, topic=topics.EVENTS, client_id=name, group=GROUP)
    worker = MerchantWebhookWorker(
        store=store,
        intake=Intake(store, reader, metrics),
        sender=Sender(loopback=settings.merchant_webhooks_loopback),
        metrics=metrics,
    )

    def work() -> None:
        try:
            worker.run()
        finally:
            store.close()

    return RunnableService(run=work, stop=worker.stop, ready=lambda: worker.is_ready or "Postgres is away")
