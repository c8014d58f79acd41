"""What an operator asks at a shell: the policies in force, and every counter behind one key."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from limiter.policy.calendars import calendars_of
from limiter.policy.keys import limit_key, parts_of
from limiter.policy.policies import PolicySet
from limiter.store import durable_counters
from limiter.store.store import Counted
from limiter.store.stored_bucket import bucket_of
from schemas.limiter.limit_policy import LimitPolicy
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg

    from limiter.policy.level import Level
    from limiter.store.sharded_store import ShardedStore

SQL: Final = queries("sinks.postgres.queries.limiter", "policies.sql")
_policy: Final = msgspec.json.Decoder(LimitPolicy)


def policies(connection: psycopg.Connection[Any]) -> list[LimitPolicy]:
    """Everything in force."""
    return [_policy.decode(body) for *_, body in connection.execute(SQL["snapshot_contents"]) if body is not None]


def owned(
    connection: psycopg.Connection[Any], key: str, found: list[LimitPolicy], client: str | None = None
) -> dict[str, Counted]:
    """What owners have counted of the durable policies that govern a key, by policy. Raises InvalidCommand."""
    parts = parts_of(key, client)
    rows = {}
    for level in _in_force(found).levels(parts):
        if level.policy.consistency == "durable":
            query = durable_counters.SQL["quota_counter_by_key"]
            row = connection.execute(query.encode(), durable_counters.place(level, parts)).fetchone()
            rows[level.id_] = durable_counters.counted(level, row)
    return rows


async def counters(
    key: str,
    found: list[LimitPolicy],
    by_owners: Mapping[str, Counted],
    store: ShardedStore,
    client: str | None = None,
) -> dict[str, Any]:
    """What every policy that governs a key has counted, shadow ones too. Raises InvalidCommand, StoreUnavailable.

    ``client``: an address, for policies by network. Without one these are named, and what they counted is not known.
    """
    parts, policies_ = parts_of(key, client), _in_force(found)
    rows = []
    for level in policies_.levels(parts):
        if not level.policy.is_counted:
            rows.append(_without_counter(level, parts))
            continue
        counted = by_owners.get(level.id_) or await store.peek(bucket_of(level, level.counted_by(parts)))
        rows.append(
            {
                "policy_id": level.id_,
                "version": counted.version,
                "per": list(level.policy.per),
                "network": level.network_from(parts),
                "consistency": level.policy.consistency,
                "shadow": level.policy.shadow,
                "algorithm": level.policy.algorithm,
                "capacity": level.policy.capacity,
                **counted.rendered(),
            }
        )
    if client is None:
        rows += [_without_counter(level, parts) for level in policies_.by_network(parts)]
    as_of = datetime.now(UTC).isoformat(timespec="milliseconds")
    return {"limit_key": limit_key(parts), "as_of": as_of, "counters": rows}


def _in_force(found: list[LimitPolicy]) -> PolicySet:
    return PolicySet(found, 0, calendars_of(found, int(time.time())))


def _without_counter(level: Level, parts: dict[str, str]) -> dict[str, Any]:
    """A policy that has no counter, as its algorithm says; or one of every network, where none was asked for."""
    policy = level.policy
    return {
        "policy_id": level.id_,
        "version": level.version,
        "per": list(policy.per),
        "network": level.network_from(parts),
        "consistency": policy.consistency if policy.is_counted else None,
        "shadow": policy.shadow,
        "algorithm": policy.algorithm,
        "capacity": policy.capacity if policy.is_counted else None,
        **dict.fromkeys(Counted(0, 0, 0, 0, 0).rendered()),
    }
