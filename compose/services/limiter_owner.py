"""Wires one owner of quota policies and durable quotas; beside it, who signs snapshots and who prunes old charges."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from compose.services.partition_owner import PartitionOwner
from dataflows.limiter.service import limiter_service
from limiter.durable_counters import prune
from limiter.publisher import publish
from limiter.signing_keys import SigningKeys
from schemas import limits
from sinks.postgres.rounds import Rounds

if TYPE_CHECKING:
    from compose.settings import Settings


def run(settings: Settings, instance: int) -> None:
    """Owns partitions until SIGTERM, then drains."""
    owner = PartitionOwner(settings.addresses())
    keys = SigningKeys(settings.the_home().path / "keys")
    keys.ensure()
    sign_newest = partial(publish, key=keys.signing_key())
    publishing = Rounds("snapshots", owner.dsn, sign_newest, limits.LIMIT_SNAPSHOT_POLL_S)
    publishing.start()
    pruning = Rounds("quotas-pruned", owner.dsn, prune, limits.LIMIT_DURABLE_PRUNE_EVERY_S)
    pruning.start()
    owner.run(limiter_service(), "limiter-owner", instance)
    publishing.stop()
    pruning.stop()
