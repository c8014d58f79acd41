"""Wires one webhook worker with the loops that finish approved repairs and that sweep cases.

Several run side by side: Postgres shares.
"""

from __future__ import annotations

import os
import socket
import threading
from typing import TYPE_CHECKING, Final

from compose.services.runnable_service import RunnableService, serve
from dataflows.owner import fail_points
from dataflows.payments.webhooks.fact_producer import WebhookFactProducer
from dataflows.payments.webhooks.inbox_store import InboxStore
from dataflows.payments.webhooks.metrics import WebhookMetrics
from dataflows.payments.webhooks.worker import WebhookWorker
from reconciliation.payments.repair.loop import RepairLoop
from reconciliation.payments.repair.sweep_loop import SweepLoop, SweepMetrics
from schemas.senders import REPAIRS, WEBHOOK_WORKER
from sinks.streams.standing_still import StandsStill

if TYPE_CHECKING:
    from compose.settings.settings import Settings

ROLE: Final = "millrace_worker"


def run(settings: Settings, instance: int) -> None:
    """Applies webhooks until SIGTERM, then ends after the round that is under way."""
    serve(build(settings, instance))


def build(settings: Settings, instance: int) -> RunnableService:
    """Applies webhooks, finishes approved repairs and sweeps cases; Postgres is waited for."""
    name = f"webhook-worker-{socket.gethostname()}-{os.getpid()}-{instance}"
    addresses = settings.addresses()
    store = InboxStore(addresses.postgres_dsns[ROLE], name)
    producer = WebhookFactProducer(settings.kafka_of("webhook_worker", WEBHOOK_WORKER), name)
    worker = WebhookWorker(store=store, producer=producer, metrics=WebhookMetrics())
    repairs = RepairLoop(
        addresses.postgres_dsns[ROLE],
        settings.kafka_of("webhook_worker", REPAIRS),
        f"{name}-repairs",
        on_step=lambda step: fail_points.reach(f"repair_{step}"),
    )
    sweeps = SweepLoop(
        addresses.postgres_dsns[ROLE],
        f"{name}-sweeps",
        SweepMetrics(),
        on_step=lambda step: fail_points.reach(f"case_sweep_{step}"),
    )
    stop_loops = threading.Event()

    def finish_repairs() -> None:
        try:
            repairs.run(stop_loops)
        finally:
            worker.stop()  # a bug in it ends the process, which the supervisor starts again

    def work() -> None:
        finishing = threading.Thread(target=finish_repairs, name="repairs")
        finishing.start()
        # Not waited for at the end: a sweep that is cut off leaves nothing, and the next process does it.
        threading.Thread(target=sweeps.run, args=(stop_loops,), name="sweeps", daemon=True).start()
        try:
            worker.run()
        finally:
            stop_loops.set()
            finishing.join()
            producer.close()
            store.close()

    def ready() -> bool | str:
        if not worker.is_ready:
            return "Postgres is away"
        late = sweeps.why_late()
        return True if late is None else StandsStill(late)  # a new start mends nothing

    return RunnableService(run=work, stop=worker.stop, ready=ready)
