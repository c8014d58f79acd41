"""Wires one processor-attempt worker. Several run side by side: Kafka shares the events, Postgres the leases."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from typing import TYPE_CHECKING, Final

from compose.services.ops import serve_ops, turning
from compose.stack.errors import StackError
from dataflows.payments.attempts.dispatch_store import DispatchStore
from dataflows.payments.attempts.event_reader import FOLLOWED, AttemptEventReader
from dataflows.payments.attempts.fact_producer import FactProducer
from dataflows.payments.attempts.metrics import AttemptMetrics
from dataflows.payments.attempts.simulator_adapter import SimulatorAdapter
from dataflows.payments.attempts.vault_route import VaultRoute
from dataflows.payments.attempts.worker import AttemptWorker
from schemas.errors import Unavailable
from schemas.senders import PROCESSOR_WORKER
from sinks.streams.follower import Follower
from sinks.streams.metrics import FollowerMetrics

if TYPE_CHECKING:
    from compose.settings.processors import ProcessorAddress
    from compose.settings.settings import Settings
    from dataflows.payments.attempts.adapter import ProcessorAdapter

ROLE: Final = "millrace_worker"


def run(settings: Settings, instance: int) -> None:
    """Carries out attempts until SIGTERM, then lets calls in flight end.

    StackError when Postgres is away then and does not learn what came of them.
    """
    # The name is new with every process: a lease of a worker that was killed is then nobody's, and runs out.
    name = f"processor-worker-{socket.gethostname()}-{os.getpid()}-{instance}"
    try:
        asyncio.run(_work(settings, name))
    except* Unavailable as group:
        raise StackError(str(group.exceptions[0])) from group


def _adapter(processor: ProcessorAddress, vault: VaultRoute) -> ProcessorAdapter:
    """How this processor is spoken to: its name says which adapter."""
    if processor.adapter == "stripe":
        from dataflows.payments.attempts.stripe_adapter import StripeAdapter  # noqa: PLC0415 - the SDK takes a second

        return StripeAdapter(processor.url, processor.secret or "", processor.name, vault)
    return SimulatorAdapter(processor.url, processor.name, vault)


async def _work(settings: Settings, name: str) -> None:
    addresses = settings.addresses()
    metrics = AttemptMetrics()
    store = DispatchStore(addresses.postgres_dsns[ROLE], name)
    await store.open()
    follower_metrics = FollowerMetrics(FOLLOWED.follower)
    reader = AttemptEventReader(
        Follower(
            addresses.kafka_of("processor_worker"), addresses.postgres_dsns[ROLE], FOLLOWED, name, follower_metrics
        )
    )
    producer = FactProducer(settings.kafka_of("processor_worker", PROCESSOR_WORKER), name, metrics)
    vault = VaultRoute(addresses.vault_url, settings.vault_forward_secret())
    worker = AttemptWorker(
        store=store,
        reader=reader,
        producer=producer,
        adapters=[_adapter(processor, vault) for processor in addresses.processors],
        metrics=metrics,
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, worker.stop)
    serve_ops(None, lambda: worker.why_not_ready() or True, alive=turning(loop))
    try:
        await worker.run()
    finally:
        await producer.close()
        await reader.close()
        await store.close()
