"""How the shards are, for an operator's eyes: what each store says now, and what to do when it is not well."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from limiter.policy.shard_map import ShardsRefused, url_of
from limiter.store.shard_server import connected
from schemas.limiter import limits

if TYPE_CHECKING:
    from limiter.policy.shard_map import Shard, ShardMap
    from limiter.store.shard_server import Seen

_MS_PER_S = 1_000


def rows(shard_map: ShardMap, own_url: str, *, encrypted: bool = False) -> list[dict[str, Any]]:
    """One row for each shard. A store that does not answer is a row too."""
    shares = shard_map.shares()
    pinned = list(shard_map.pins.values())
    return [
        {
            "shard": shard.name,
            "address": shard.address or "as configured",
            "epoch": shard.epoch,
            "state": shard.state,
            "share": shares[shard.name],
            "pins": pinned.count(shard.name),
            "learning": time.time() < shard.promoted_at + limits.LIMIT_LEASE_MS / _MS_PER_S,
            **_seen(shard, url_of(shard.address, own_url, encrypted=encrypted)),
        }
        for shard in shard_map.shards
    ]


def _seen(shard: Shard, url: str) -> dict[str, Any]:
    try:
        with connected(url) as server:
            seen = server.look()
    except ShardsRefused as error:
        return {"replicas": None, "health": error.public}
    return {"replicas": seen.replicas, "health": judged(shard, seen)}


def judged(shard: Shard, seen: Seen) -> str:
    """``ok``, or what is wrong with a store and what to do."""
    if seen.eviction != "noeviction":
        return f"evicts counters (maxmemory-policy {seen.eviction}): set maxmemory-policy noeviction"
    if not seen.is_primary:
        return "is a replica: promote the shard to its primary"
    if seen.epoch == 0 < shard.epoch:
        return f"lost its counters: 'millrace limiter shards restore {shard.name}' lets it answer again"
    if seen.epoch != shard.epoch:
        said = f"the store is at epoch {seen.epoch}, the map says {shard.epoch}"
        return f"{said}: run the last change again, or promote {shard.name} to a primary"
    if shard.state != "live":
        return "a change began and did not end: run it again"
    return "ok" if seen.replicas else "ok, without a replica"
