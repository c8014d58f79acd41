"""The epochs of the limiter's shards begin with the stack: a store that says none afterwards has lost its counters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from limiter.policy.shard_map import ShardsRefused
from limiter.store.shard_changes import ShardChanges
from sinks import limits

if TYPE_CHECKING:
    from compose.settings.addresses import Addresses


def begin_shards(addresses: Addresses, *, encrypted: bool) -> str | None:
    """Why a shard has no epoch yet, if so: its store does not answer, or somebody changes the shards just now."""
    dsn = addresses.postgres_dsns["millrace_operator"]
    with psycopg.connect(dsn, autocommit=True, connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S) as connection:
        try:
            ShardChanges(connection, addresses.redis_url, "start", encrypted=encrypted).begin()
        except ShardsRefused as error:
            return f"the loss of a counter store would not be noticed: {error.public}"
    return None
