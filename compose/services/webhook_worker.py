"""Wires one webhook worker. Several run side by side: Postgres shares the inbox."""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING, Final

from compose.services.ops import serve_ops
from dataflows.payments.webhooks.inbox_store import InboxStore
from dataflows.payments.webhooks.metrics import WebhookMetrics
from dataflows.payments.webhooks.teller import Teller
from dataflows.payments.webhooks.worker import WebhookWorker

if TYPE_CHECKING:
    from compose.settings import Settings

ROLE: Final = "millrace_worker"


def run(settings: Settings, instance: int) -> None:
    """Applies webhooks until SIGTERM, then ends after the round that is under way."""
    name = f"webhook-worker-{socket.gethostname()}-{os.getpid()}-{instance}"
    addresses = settings.addresses()
    store = InboxStore(addresses.postgres_dsns[ROLE], name)
    teller = Teller(addresses.kafka, name)
    worker = WebhookWorker(store=store, teller=teller, metrics=WebhookMetrics())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: worker.stop())
    serve_ops(None, lambda: worker.is_ready or "Postgres is away")
    try:
        worker.run()
    finally:
        teller.close()
        store.close()
