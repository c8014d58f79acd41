"""Wires the stream of leases into settlements."""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING, Final

from compose.services.ops import serve_ops
from dataflows.limiter.leases.flow import LeaseStream

if TYPE_CHECKING:
    from compose.settings import Settings

ROLE: Final = "millrace_leases"


def run(settings: Settings, instance: int) -> None:
    """Settles leases until SIGTERM."""
    addresses = settings.addresses()
    name = f"limiter-leases-{socket.gethostname()}-{os.getpid()}-{instance}"
    stream = LeaseStream(addresses.kafka, addresses.postgres_dsns[ROLE], addresses.redis_url, name)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stream.stop())
    serve_ops(None, lambda: stream.is_ready or "Postgres is away")
    stream.run()
