"""Wires one webhook worker with the loops that finish approved repairs, sweep cases and fetch reports.

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
from reconciliation.payments.daily.loop import DailyMetrics, DailyReports
from reconciliation.payments.repair.loop import RepairLoop
from reconciliation.payments.repair.sweep_loop import SweepLoop, SweepMetrics
from reconciliation.payments.repair.waiting import WaitingLoop, WaitingMetrics
from reconciliation.payments.settlement.run import ReconcileSettings
from schemas.senders import RECONCILE, REPAIRS, WEBHOOK_WORKER
from sinks.streams.standing_still import StandsStill

if TYPE_CHECKING:
    from compose.settings.settings import Settings

ROLE: Final = "millrace_worker"
_REPORTS_ROLE: Final = "millrace_settlement"


def run(settings: Settings, instance: int) -> None:
    """Applies webhooks until SIGTERM, then ends after the round that is under way."""
    serve(build(settings, instance))


def build(settings: Settings, instance: int) -> RunnableService:
    """Applies webhooks, finishes repairs, sweeps cases, fetches reports, tells what waits; waits for Postgres."""
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
    reports = _daily_reports(settings, f"{name}-reports")
    waiting = WaitingLoop(addresses.postgres_dsns[ROLE], f"{name}-waiting", WaitingMetrics())
    stop_loops = threading.Event()

    def finish_repairs() -> None:
        try:
            repairs.run(stop_loops)
        finally:
            worker.stop()  # a bug in it ends the process, which the supervisor starts again

    def work() -> None:
        finishing = threading.Thread(target=finish_repairs, name="repairs")
        finishing.start()
        # Not waited for at the end: what is cut off leaves nothing, or what is known, and the next process does it.
        threading.Thread(target=sweeps.run, args=(stop_loops,), name="sweeps", daemon=True).start()
        threading.Thread(target=waiting.run, args=(stop_loops,), name="waiting", daemon=True).start()
        if reports is not None:
            threading.Thread(target=reports.run, args=(stop_loops,), name="reports", daemon=True).start()
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
        late = sweeps.why_late() or (reports.why_late() if reports is not None else None)
        return True if late is None else StandsStill(late)  # a new start mends nothing

    return RunnableService(run=work, stop=worker.stop, ready=ready)


def _daily_reports(settings: Settings, name: str) -> DailyReports | None:
    """Where a processor has an hour; without one nothing of it is opened."""
    hours = settings.processor_report_hours
    if not hours:
        return None
    addresses = settings.addresses()
    reconciling = ReconcileSettings(
        postgres_dsn=addresses.postgres_dsns[_REPORTS_ROLE],
        kafka=settings.kafka_of("webhook_worker", RECONCILE),
        processors={processor: addresses.simulator_urls[processor] for processor in hours},
    )
    return DailyReports(
        reconciling, hours, name, DailyMetrics(), on_step=lambda step: fail_points.reach(f"reports_{step}")
    )
