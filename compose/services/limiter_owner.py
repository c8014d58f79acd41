"""Wires one owner of quota policies, and the publisher of their signed snapshots beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compose.services.partition_owner import PartitionOwner
from dataflows.limiter.service import limiter_service
from limiter.publisher import SnapshotPublisher
from limiter.signing_keys import SigningKeys

if TYPE_CHECKING:
    from compose.settings import Settings


def run(settings: Settings, instance: int) -> None:
    """Owns partitions until SIGTERM, then drains."""
    owner = PartitionOwner(settings.addresses())
    keys = SigningKeys(settings.the_home().path / "keys")
    keys.ensure()
    publisher = SnapshotPublisher(owner.dsn, keys.signing_key())
    publisher.start()
    owner.run(limiter_service(), "limiter-owner", instance)
    publisher.stop()
