"""Wires one partition owner of payments. Several run side by side: Kafka shares the partitions out among them."""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import TYPE_CHECKING, Final

from compose.services.ops import serve_ops
from dataflows.domain.policies import Policies
from dataflows.owner.supervise import supervise
from dataflows.payments.policies import PolicyBook, PolicyRefresher
from dataflows.payments.service import payments_service

if TYPE_CHECKING:
    from compose.settings import Settings
    from dataflows.owner.process import OwnerProcess

ROLE: Final = "millrace_owner"


def run(settings: Settings, instance: int) -> None:
    """Owns partitions until SIGTERM, then drains."""
    addresses = settings.addresses()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    current: list[OwnerProcess] = []

    def started(process: OwnerProcess) -> None:
        current[:] = [process]

    def ready() -> bool | str:
        # A spare owner without a partition is ready too: it is in the group and will be given some.
        return True if current and current[0].reader.joined else "not in the consumer group yet"

    serve_ops(None, ready)
    policies = PolicyBook(Policies(processors=frozenset(settings.processors)))
    refresher = PolicyRefresher(policies, addresses.postgres_dsns[ROLE])
    refresher.start()
    refresher.wait(stop)
    supervise(
        addresses.kafka,
        addresses.postgres_dsns[ROLE],
        payments_service(processor=settings.processors[0], policies=policies),
        f"owner-{socket.gethostname()}-{os.getpid()}-{instance}",
        stop,
        group=os.environ.get("MILLRACE_OWNER_GROUP"),
        driver="plain" if os.environ.get("MILLRACE_OWNER_DRIVER") == "plain" else "bytewax",
        on_start=started,
    )
    refresher.stop()
