"""The other accounts of a soak of the limiter: counters at the store, settlements and refunds in Postgres."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

import psycopg

from compose.proof import limits as proof_limits
from compose.proof.soak.limiter.ledger import QUOTAS, Booked, Counter, Leases, Quota
from compose.proof.soak.limiter.load import ROUTE
from compose.proof.soak.proof import Proof
from limiter.store.inspection import counters, policies
from limiter.store.shard_changes import newest
from limiter.store.sharded_store import ShardedStore
from reconciliation.check.invariant import invariants
from sinks import limits as sinks_limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from compose.settings.addresses import Addresses

_QUERIES: Final = queries("compose.proof.soak.limiter", "postgres.sql")
_ROLE: Final = "millrace_operator"
_ALL_LEASES: Final = "21"


def connection(addresses: Addresses) -> psycopg.Connection[Any]:
    """As an operator."""
    return psycopg.connect(
        addresses.postgres_dsns[_ROLE], autocommit=True, connect_timeout=sinks_limits.POSTGRES_CONNECT_TIMEOUT_S
    )


async def at_rest(addresses: Addresses, within_s: float) -> str | None:
    """Returns when all leases are settled, nothing is to be given back and totals stand; a text says what is not."""
    ends_at, calm_since, before = time.monotonic() + within_s, 0.0, -1
    while True:
        with connection(addresses) as asked:
            leases, refunds, counted = asked.execute(_QUERIES["moving"]).fetchone() or (0, 0, 0)
        now = time.monotonic()
        if leases or refunds or counted != before:
            calm_since, before = 0.0, counted
        elif calm_since == 0.0:
            calm_since = now
        elif now - calm_since > proof_limits.SOAK_LEASES_CALM_S:  # what was charged last is looked at last
            return None
        if now > ends_at:
            return f"{leases} leases and {refunds} refunds are open after {within_s} s"
        await asyncio.sleep(proof_limits.SOAK_POLL_MS / 1_000)


async def booked(addresses: Addresses, names: Iterable[Counter]) -> dict[Counter, Booked]:
    """Every counter, as the store and the totals of the stream have it. Raises StoreUnavailable."""
    keys = {(quota, user): f"{quota}:{user}:{ROUTE}" for quota, user in names}
    with connection(addresses) as asked:
        in_force, shard_map = policies(asked), newest(asked)
        streamed = dict(asked.execute(_QUERIES["usage"], (list(keys.values()),)).fetchall())
    store = ShardedStore(addresses.redis_url)
    store.use(shard_map)
    found: dict[Counter, Booked] = {}
    try:
        for counter, key in keys.items():
            (row,) = (await counters(key, in_force, {}, store))["counters"]
            found[counter] = Booked(used=row["used"], reserved=row["reserved"], streamed=streamed.get(key, 0))
    finally:
        await store.close()
    return found


def leases(addresses: Addresses, ids: Mapping[Quota, str]) -> dict[Quota, Leases]:
    """What became of the leases of each policy."""
    with connection(addresses) as asked:
        settled = {row[0]: row[1:] for row in asked.execute(_QUERIES["leases"]).fetchall()}
        refunds = {row[0]: row[1:] for row in asked.execute(_QUERIES["refunds"]).fetchall()}
    found: dict[Quota, Leases] = {}
    for quota in QUOTAS:
        granted, reported, assumed, released = settled.get(ids[quota], (0, 0, 0, 0))
        count, credited, stays = refunds.get(ids[quota], (0, 0, 0))
        found[quota] = Leases(
            granted=granted,
            reported=reported,
            assumed=assumed,
            released=released,
            refunds=count,
            credited=credited,
            not_credited=stays or 0,
        )
    return found


def each_lease(addresses: Addresses) -> Proof:
    """The invariant of ``millrace check`` about leases, row by row."""
    (invariant,) = (one for one in invariants() if one.id == _ALL_LEASES)
    with connection(addresses) as asked:
        rows = asked.execute(invariant.sql.encode()).fetchall()
    return Proof(name="every single lease is accounted for", says=invariant.title, problems=[str(row) for row in rows])
