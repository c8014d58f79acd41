"""Wires one sender of webhooks to merchants. Several run side by side: Postgres shares deliveries and the stream."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Final

from compose.services.runnable_service import RunnableService, serve
from dataflows.payments.merchant_webhooks.intake import FOLLOWED, Intake
from dataflows.payments.merchant_webhooks.metrics import MerchantWebhookMetrics
from dataflows.payments.merchant_webhooks.sender import Sender
from dataflows.payments.merchant_webhooks.store import DeliveryStore
from dataflows.payments.merchant_webhooks.worker import MerchantWebhookWorker
from sinks.streams.follower import Follower
from sinks.streams.metrics import FollowerMetrics

if TYPE_CHECKING:
    from compose.settings.settings import Settings

ROLE: Final = "millrace_worker"


def run(settings: Settings, instance: int) -> None:
    """Tells merchants until SIGTERM, then lets the sends under way end."""
    serve(build(settings, instance))


def build(settings: Settings, instance: int) -> RunnableService:
    """Tells merchants; Postgres is waited for."""
    name = f"merchant-webhooks-{socket.gethostname()}-{os.getpid()}-{instance}"
    addresses = settings.addresses()
    metrics = MerchantWebhookMetrics()
    dsn = addresses.postgres_dsns[ROLE]
    store = DeliveryStore(dsn, name, settings.webhook_secret_keys(), metrics)
    follower = Follower(
        addresses.kafka_of("merchant_webhooks"), dsn, FOLLOWED, name, FollowerMetrics(FOLLOWED.follower)
    )
    worker = MerchantWebhookWorker(
        store=store,
        intake=Intake(store, follower, metrics),
        sender=Sender(loopback=settings.merchant_webhooks_loopback),
        metrics=metrics,
    )

    def work() -> None:
        try:
            worker.run()
        finally:
            store.close()

    return RunnableService(run=work, stop=worker.stop, ready=lambda: worker.why_not_ready() or True)
