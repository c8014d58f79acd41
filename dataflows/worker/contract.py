"""What a worker is: where it runs, and what is asked of it. Its service declares it (``schemas.service``).

Its module has ``build(place) -> ServiceWorker``. One that makes commands of events, and no more, is a
``reactor``; one that does something else with them is an ``EventWorker``, or a ``CountingWorker`` where all that
it does lies in Postgres; one that looks for work in Postgres has a ``LastingSession``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from schemas.media_origin import MediaOrigin
from sinks.kafka.connection import KafkaConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlace:
    """What the platform gives to a worker."""

    name: str  # of the worker: its follower, and its group in Kafka
    kafka: KafkaConnection
    postgres_dsn: str = field(repr=False)  # of the role that its service declares
    redis_url: str = field(repr=False)  # "" where its service does not declare it among the worker's secrets
    media: MediaOrigin  # the bytes of media, and their URLs: signed with b"" where that key is not declared
    client_id: str  # of this process
    keys: Path | None = None  # the folder of the home's private files
    clamd: str | None = None  # host and port of a scanner of malware


class ServiceWorker(Protocol):
    """One worker in one process."""

    def run(self) -> None:
        """Works until ``stop``; servers that are away are waited for. What it raises ends the process."""

    def stop(self) -> None:
        """Ends ``run`` soon; any thread or signal handler may call it, and again."""

    def why_not_ready(self) -> str | None:
        """None while it does its work; any thread may ask."""
