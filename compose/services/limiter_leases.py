"""Wires the streams of leases and of identities into settlements and refunds."""

from __future__ import annotations

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from compose.services.runnable_service import RunnableService, serve
from dataflows.limiter.identities.flow import IdentityStream
from dataflows.limiter.leases.flow import LeaseStream

if TYPE_CHECKING:
    from compose.settings.settings import Settings

ROLE: Final = "millrace_leases"


def run(settings: Settings, instance: int) -> None:
    """Settles leases, and gives back what was charged twice, until SIGTERM, or until one of the two fails."""
    serve(build(settings, instance))


def build(settings: Settings, instance: int) -> RunnableService:
    """Settles leases, and gives back what was charged twice."""
    addresses = settings.addresses()
    name = f"limiter-leases-{socket.gethostname()}-{os.getpid()}-{instance}"
    servers = (
        addresses.kafka_of("limiter_leases"),
        addresses.postgres_dsns[ROLE],
        addresses.redis_url_of("limiter_leases"),
    )
    leases = LeaseStream(*servers, name, encrypted=settings.is_production)
    identities = IdentityStream(*servers, f"{name}-identities", encrypted=settings.is_production)

    def stop() -> None:
        leases.stop()
        identities.stop()

    def work() -> None:
        with ThreadPoolExecutor(1, "identities") as beside:
            refunding = beside.submit(identities.run)
            refunding.add_done_callback(lambda _: leases.stop())
            try:
                leases.run()
            finally:
                identities.stop()
            refunding.result()

    def ready() -> bool | str:
        return (leases.is_ready and identities.is_ready) or "Postgres is away"

    return RunnableService(run=work, stop=stop, ready=ready)
