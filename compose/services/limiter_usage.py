"""Wires the stream of decisions into totals of keys."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Final

from compose.services.runnable_service import RunnableService, serve
from limiter.stream.usage import UsageStream

if TYPE_CHECKING:
    from compose.settings.settings import Settings

ROLE: Final = "millrace_worker"


def run(settings: Settings, instance: int) -> None:
    """Adds decisions up until SIGTERM."""
    serve(build(settings, instance))


def build(settings: Settings, instance: int) -> RunnableService:
    """Adds decisions up; Postgres and Kafka are waited for."""
    addresses = settings.addresses()
    name = f"limiter-usage-{socket.gethostname()}-{os.getpid()}-{instance}"
    stream = UsageStream(addresses.kafka_of("limiter_usage"), addresses.postgres_dsns[ROLE], name)
    return RunnableService(run=stream.run, stop=stream.stop, ready=lambda: stream.why_not_ready() or True)
