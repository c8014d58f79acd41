"""Wires one owner of quota policies, and the publisher of their signed snapshots beside it."""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import TYPE_CHECKING, Final

from compose.services.ops import serve_ops
from dataflows.limiter.service import limiter_service
from dataflows.owner.supervise import supervise
from limiter.publisher import SnapshotPublisher
from limiter.signing_keys import SigningKeys

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

    def ready() -> bool | str:
        return True if current and current[0].reader.joined else "not in the consumer group yet"

    serve_ops(None, ready)
    keys = SigningKeys(settings.the_home().path / "keys")
    keys.ensure()
    publisher = SnapshotPublisher(addresses.postgres_dsns[ROLE], keys.signing_key())
    publisher.start()
    supervise(
        addresses.kafka,
        addresses.postgres_dsns[ROLE],
        limiter_service(),
        f"limiter-owner-{socket.gethostname()}-{os.getpid()}-{instance}",
        stop,
        on_start=lambda process: current.__setitem__(slice(None), [process]),
    )
    publisher.stop()
