"""What every owner process does around its dataflow: it stops at a signal, and its ops port says whether it works."""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import TYPE_CHECKING, Any

from compose.services.ops import serve_ops
from compose.settings.kafka_access import owner_process
from dataflows.owner.supervise import supervise
from schemas.services import senders_to
from sinks.postgres.periodic_task import PeriodicTask

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from compose.settings.settings import Settings
    from dataflows.owner.drivers import Driver
    from dataflows.owner.process import OwnerProcess
    from dataflows.owner.service import OwnedService
    from schemas.service import Service


class PartitionOwner:
    """Made on the main thread, before anything that takes long: from then on ``stop`` is set by SIGTERM and SIGINT."""

    def __init__(self, settings: Settings, service: Service) -> None:
        self.stop = threading.Event()
        addresses = settings.addresses()
        self._keys = settings.sender_keys().of(senders_to(service.commands_topic))
        self._keys.ensure()
        self._dsn = addresses.postgres_dsns[service.owner_role]
        self._kafka = addresses.kafka_of(owner_process(service))
        self._process: OwnerProcess | None = None
        self._failed = ""  # what the run before the present one ended of
        self._periodic: list[PeriodicTask] = []
        signal.signal(signal.SIGTERM, lambda *_: self.stop.set())
        signal.signal(signal.SIGINT, lambda *_: self.stop.set())
        serve_ops(None, self._ready, started=self._started, alive=self._alive)

    def run_periodically(self, name: str, task: Callable[[psycopg.Connection[Any]], object], every_s: float) -> None:
        """Runs ``task`` periodically until the end of ``run``."""
        periodic = PeriodicTask(name, self._dsn, task, every_s)
        periodic.start()
        self._periodic.append(periodic)

    def run(
        self, service: OwnedService, name: str, instance: int, *, driver: Driver = "bytewax", group: str | None = None
    ) -> None:
        """Owns partitions until ``stop``, then drains. Raises what ``supervise`` raises."""
        owner_id = f"{name}-{socket.gethostname()}-{os.getpid()}-{instance}"
        where = (self._kafka, self._dsn, service, owner_id, self.stop, self._keys)
        supervise(*where, driver=driver, group=group, on_start=self._made, on_failure=self._fails)
        for periodic in self._periodic:
            periodic.stop()

    def _made(self, process: OwnerProcess) -> None:
        self._process = process

    def _fails(self, reason: str) -> None:
        self._failed = reason

    def _started(self) -> bool | str:
        # A spare owner without a partition has started too: it is in the group and will be given some.
        if self._process is not None and self._process.reader.joined:
            return True
        away = (periodic.why_away for periodic in self._periodic)
        again = f"not in the consumer group again: {self._failed}" if self._failed else "not in the consumer group yet"
        return next(filter(None, away), again)

    def _alive(self) -> bool | str:
        return True if self._process is None else self._process.hanging() or True

    def _ready(self) -> bool | str:
        process = self._process
        if process is not None and process.failure is not None:  # its lanes end, and then it starts over
            return f"starts over: {process.failure}"
        still = process.standing_still() if process is not None else {}
        if not still:
            return self._started()
        return "; ".join(f"partition {partition} stands still: {why}" for partition, why in sorted(still.items()))
