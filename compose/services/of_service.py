"""Wires a process that a service declares: its owner, where no module wires that, or one of its workers."""

from __future__ import annotations

import os
import socket
from importlib import import_module
from typing import TYPE_CHECKING

from compose.services.partition_owner import PartitionOwner
from compose.services.runnable_service import RunnableService, serve
from compose.settings.service_processes import OWNERS, WORKERS
from dataflows.social.config import SocialConfig
from dataflows.worker.contract import ServiceWorker, WorkerPlace
from schemas.senders import of_worker

if TYPE_CHECKING:
    from compose.settings.settings import Settings


def run(settings: Settings, instance: int, name: str) -> None:
    """Owns partitions, or works, until SIGTERM; then it drains."""
    if name in WORKERS:
        serve(build_worker(settings, instance, name))
        return
    declared = OWNERS[name]
    owner = PartitionOwner(settings, declared)
    module = import_module(declared.module("dataflows"))
    owned = getattr(module, "OWNED", None) or module.owned(settings.the_home().path / "keys")
    owner.run(owned, name.replace("_", "-"), instance)


def build_worker(settings: Settings, instance: int, name: str) -> RunnableService:
    """A worker, which its own module makes; servers are waited for."""
    declared, addresses = WORKERS[name], settings.addresses()
    place = WorkerPlace(
        name=name,
        kafka=settings.kafka_of(name, of_worker(name)),
        postgres_dsn=addresses.postgres_dsns[declared.role],
        keys=settings.the_home().path / "keys",
        client_id=f"{name.replace('_', '-')}-{socket.gethostname()}-{os.getpid()}-{instance}",
        of_services=(
            SocialConfig(
                media=settings.media_origin(signs="media_urls" in declared.secrets),
                homes_url=addresses.social_homes_url_of(name) if "homes" in declared.secrets else "",
                clamd=settings.clamd,
            ),
        ),
    )
    worker: ServiceWorker = import_module(declared.module).build(place)
    return RunnableService(run=worker.run, stop=worker.stop, ready=lambda: worker.why_not_ready() or True)
