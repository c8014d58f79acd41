"""Wires the stream of decisions into totals of keys."""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING, Final

from compose.services.ops import serve_ops
from limiter.usage import UsageStream

if TYPE_CHECKING:
    from compose.settings import Settings

ROLE: Final = "millrace_worker"


def run(settings: Settings, instance: int) -> None:
    """Adds decisions up until SIGTERM."""
    addresses = settings.addresses()
    name = f"limiter-usage-{socket.gethostname()}-{os.getpid()}-{instance}"
    stream = UsageStream(addresses.kafka, addresses.postgres_dsns[ROLE], name)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stream.stop())
    serve_ops(None, lambda: stream.is_ready or "Postgres is away")
    stream.run()
