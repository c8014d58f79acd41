"""Wires one owner of quota policies and durable quotas; beside it, who signs snapshots and who prunes old charges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import structlog

from compose.services.partition_owner import PartitionOwner
from dataflows.limiter.service import limiter_service
from limiter.policy.publisher import publish
from limiter.policy.signing_keys import SigningKeys
from limiter.store.durable_counters import prune
from schemas.limiter import limits
from schemas.limiter.service import SERVICE

if TYPE_CHECKING:
    import psycopg

    from compose.settings.settings import Settings

_log: Final = structlog.get_logger(__name__)


def run(settings: Settings, instance: int) -> None:
    """Owns partitions until SIGTERM, then drains."""
    owner = PartitionOwner(settings, SERVICE)
    keys = SigningKeys(settings.the_home().path / "keys")
    keys.ensure()

    def sign_newest(connection: psycopg.Connection[Any]) -> None:
        try:
            key = keys.signing_key()  # every time: it may have been rotated
        except (OSError, ValueError) as error:
            _log.error("signing_key_not_read", reason=type(error).__name__)
            return
        publish(connection, key)

    owner.run_periodically("snapshots", sign_newest, limits.LIMIT_SNAPSHOT_POLL_S)
    owner.run_periodically("quotas-pruned", prune, limits.LIMIT_DURABLE_PRUNE_EVERY_S)
    owner.run(limiter_service(), "limiter-owner", instance)
