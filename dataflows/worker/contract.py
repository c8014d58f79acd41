"""The contract of a worker: what the platform gives to it and asks of it. Its service declares it.

Its module has ``build(place) -> ServiceWorker``. One that makes commands of events, and no more, is a
``reactor``; one that does something else with them is an ``EventWorker``, or a ``CountingWorker`` where all that
it does lies in Postgres; one that looks for work in Postgres has a ``LastingSession``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from sinks.kafka.connection import KafkaConnection

Config = TypeVar("Config")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlace:
    """What the platform gives to a worker."""

    name: str  # of the worker: its follower, and its group in Kafka
    kafka: KafkaConnection
    postgres_dsn: str = field(repr=False)  # of the role that its service declares
    client_id: str  # of this process
    keys: Path | None = None  # the folder of the home's private files
    #: what workers of one service alone need, of a type that the service declares
    of_services: tuple[object, ...] = field(default=(), repr=False)

    def of_service(self, kind: type[Config]) -> Config:
        """What this service needs beside the rest. Raises KeyError where the platform gave none."""
        for one in self.of_services:
            if isinstance(one, kind):
                return one
        raise KeyError(kind.__name__)


class ServiceWorker(Protocol):
    """One worker in one process."""

    def run(self) -> None:
        """Works until ``stop``; servers that are away are waited for. What it raises ends the process."""

    def stop(self) -> None:
        """Ends ``run`` soon; any thread or signal handler may call it, and again."""

    def why_not_ready(self) -> str | None:
        """None while it does its work; any thread may ask."""
