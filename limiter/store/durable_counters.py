"""Durable counters in Postgres for those who look at them, and what of them is pruned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from limiter.store.store import Counted
from schemas.limiter import limits
from schemas.limiter.durable_counter import OwnedCounter
from schemas.limiter.quota_fields import kept_by, quotas_of
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    import psycopg

    from limiter.policy.level import Level
    from sinks.postgres.owner_connection import OwnerConnection

SQL: Final = queries("sinks.postgres.queries.limiter", "quotas.sql")
_counter: Final = msgspec.json.Decoder(OwnedCounter)
_US_PER_MS: Final = 1_000


def place(level: Level, parts: dict[str, str]) -> dict[str, str]:
    """Where the counter of a level lies: the parameters of ``quota_counter_by_key``."""
    return {
        "aggregate_key": quotas_of(parts["tenant"]),
        "policy_id": level.id_,
        "counted_by": kept_by(level.counted_by(parts)),
    }


def counted(level: Level, row: tuple[Any, ...] | None) -> Counted:
    """What a durable level holds, under its policy; no row: nothing was charged, or it is long over."""
    capacity = level.policy.capacity
    if row is None:
        return Counted(used=0, reserved=0, remaining=capacity, reset_ms=0, version=level.version)
    body, now = row
    owned = _counter.decode(body)
    counter = owned.counter
    if level.version > owned.policy_version and level.terms != counter.terms:
        counter.carry_over(level.terms, now, now)  # as the owner will at the next charge
    return Counted(
        used=counter.used(now),
        reserved=0,
        remaining=max(0, counter.available(now)),
        reset_ms=-(-counter.reset_us(now) // _US_PER_MS),
        version=max(owned.policy_version, level.version),
    )


def prune(connection: psycopg.Connection[Any] | OwnerConnection) -> int:
    """Deletes a bounded number of counters and charges that are over and old; how many. Raises psycopg.Error."""
    bounds = {"retention_s": limits.LIMIT_DURABLE_RETENTION_S, "rows": limits.LIMIT_DURABLE_PRUNE_ROWS}
    return sum(
        connection.execute(SQL[name], bounds).rowcount for name in ("quota_counters_prune", "quota_charges_prune")
    )
