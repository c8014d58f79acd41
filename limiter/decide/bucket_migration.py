"""Moves what is known of a bucket to its new shard, or to its shard's new primary, before the bucket is used again.

A lease that a new primary does not know is reserved there, so that its spending is charged when it is settled. A tenant
that moved takes along what its counters held; what leases hold at the old shard counts as spent. Every gateway makes
these calls, in any order, and again after a lost answer: so each says "at least", or has effect only once.
Source: reference limiter 2.7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from limiter.store.store import OK
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from limiter.policy.shard_map import Shard
    from limiter.spending.buckets import Bucket
    from limiter.store.sharded_store import ShardedStore
    from limiter.store.store import CounterStore
    from schemas.limiter.limit_terms import Terms

_US_PER_S: Final = 1_000_000


async def arrive(bucket: Bucket, store: CounterStore, counters: CounterStore | ShardedStore) -> None:
    """Tells the store what former stores knew of the bucket and what this process holds. Raises StoreUnavailable."""
    before = bucket.store
    if bucket.level.policy.algorithm != "concurrency":  # permits end by themselves and are not moved
        if before is None or _has_new_primary(before.shard, store.shard):
            await _register(bucket, store)
        await _carry(bucket, store, counters)  # the tenant may have moved away and back meanwhile
        await _pay(bucket, store)
    bucket.store = store


async def restore(counters: CounterStore | ShardedStore, used: Mapping[Bucket, int]) -> int:
    """Makes each bucket charge at least this much; returns how much was missing. Raises StoreUnavailable."""
    missing = 0
    for bucket, amount in used.items():
        _, added, *_ = await counters.store_of((bucket,)).restore(bucket, amount)
        missing += added
    return missing


async def settle(bucket: Bucket, store: CounterStore) -> None:
    """Tells the store what ended leases spent. Keeps what it could not tell, and raises StoreUnavailable."""
    while bucket.settling:
        ended = bucket.settling.pop()  # taken first: another call may be settling the same bucket
        try:
            answer = await store.settle(bucket, *ended)
        except BaseException:  # the store is away, or the caller has gone
            bucket.to_settle(*ended)
            raise
        if bucket.accounts is not None:
            bucket.accounts.settled(ended[0], is_known=answer[0] == OK and answer[2] > 0)


def _has_new_primary(before: Shard, now: Shard) -> bool:
    return before.name == now.name and before.promoted < now.promoted


async def _register(bucket: Bucket, store: CounterStore) -> None:
    held = [(bucket.lease_id, bucket.granted)] if bucket.lease_id else []
    for lease_id, amount in [*held, *bucket.settling]:
        await store.register(bucket, lease_id, amount)


async def _carry(bucket: Bucket, store: CounterStore, counters: CounterStore | ShardedStore) -> None:
    """Carries the count over from every former store: a tenant may have moved several times, and back."""
    for former in counters.former_of(bucket):
        if bucket.store is not None and bucket.store.shard.name == former.shard.name:
            bucket.end_lease()
            await settle(bucket, former)
        counted = await former.peek(bucket)
        if held := counted.used + counted.reserved:
            await restore(store, {bucket: held})


async def _pay(bucket: Bucket, store: CounterStore) -> None:
    """Charges a ``closed`` policy, after a failover, what the old primary may have admitted without replicating it."""
    policy, shard = bucket.level.policy, store.shard
    if policy.failure_mode != "closed" or store.now_s() >= shard.promoted_at + limits.LIMIT_FAILOVER_DEBT_S:
        return
    await store.owe(bucket, f"owed:{shard.name}:{shard.promoted}", lost_at_most(bucket.level.terms))


def lost_at_most(terms: Terms) -> int:
    """How much a bucket admits at its own rate in the time that a replica may be behind."""
    admitted = terms.refill * limits.LIMIT_REPLICA_LAG_S * _US_PER_S
    return min(terms.capacity, -(-admitted // (terms.period * terms.tick_us)))
