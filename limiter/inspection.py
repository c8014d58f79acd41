"""What an operator asks at a shell: the policies in force, and every counter behind one key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from limiter.buckets import Bucket
from limiter.keys import limit_key, parts_of
from limiter.policies import PolicySet
from limiter.store import Counted
from schemas.limit_policy import LimitPolicy
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    import psycopg

    from limiter.policies import Level
    from limiter.store import CounterStore

SQL: Final = queries("sinks.postgres.queries", "limiter.sql")
_policy: Final = msgspec.json.Decoder(LimitPolicy)


def policies(connection: psycopg.Connection[Any]) -> list[LimitPolicy]:
    """Everything in force."""
    return [_policy.decode(body) for _, body in connection.execute(SQL["snapshot_policies"]).fetchall()]


async def counters(key: str, found: list[LimitPolicy], store: CounterStore) -> dict[str, Any]:
    """What every policy that governs a key has counted, shadow ones too. Raises InvalidCommand, StoreUnavailable."""
    parts = parts_of(key)
    rows = []
    for level in PolicySet(found, 0).levels(parts):
        if not level.policy.is_counted:
            rows.append(_uncounted(level))
            continue
        counted = await store.peek(Bucket(level, level.counted_by(parts)))
        rows.append(
            {
                "policy_id": level.id_,
                "version": counted.version,
                "per": list(level.policy.per),
                "shadow": level.policy.shadow,
                "algorithm": level.policy.algorithm,
                "capacity": level.policy.capacity,
                **counted.rendered(),
            }
        )
    return {"limit_key": limit_key(parts), "counters": rows}


def _uncounted(level: Level) -> dict[str, Any]:
    """A policy that has no counter: what it says is in its algorithm."""
    policy = level.policy
    shown = {"policy_id": level.id_, "version": level.version, "per": list(policy.per), "shadow": policy.shadow}
    return {**shown, "algorithm": policy.algorithm, **dict.fromkeys(("capacity", *Counted(0, 0, 0, 0, 0).rendered()))}
