"""Wires the streams of leases and of identities into settlements and refunds."""

from __future__ import annotations

import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from compose.services.ops import serve_ops
from dataflows.limiter.identities.flow import IdentityStream
from dataflows.limiter.leases.flow import LeaseStream

if TYPE_CHECKING:
    from compose.settings import Settings

ROLE: Final = "millrace_leases"


def run(settings: Settings, instance: int) -> None:
    """Settles leases, and gives back what was charged twice, until SIGTERM, or until one of the two fails."""
    addresses = settings.addresses()
    name = f"limiter-leases-{socket.gethostname()}-{os.getpid()}-{instance}"
    servers = (addresses.kafka, addresses.postgres_dsns[ROLE], addresses.redis_url)
    leases = LeaseStream(*servers, name)
    identities = IdentityStream(*servers, f"{name}-identities")

    def stop(*_: object) -> None:
        leases.stop()
        identities.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    serve_ops(None, lambda: (leases.is_ready and identities.is_ready) or "Postgres is away")
    with ThreadPoolExecutor(1, "identities") as beside:
        refunding = beside.submit(identities.run)
        refunding.add_done_callback(lambda _: leases.stop())
        try:
            leases.run()
        finally:
            identities.stop()
        refunding.result()
