"""A bucket comes to a shard, or its shard to a new primary: what is known of it is told before it is asked for again.

A lease that a new primary does not know is reserved there, so that what it spends is charged when it is settled. A
tenant that moved takes along what its counters held where they were; what leases hold there counts as spent. All calls
say "at least", or happen once: every gateway makes them, in any order, again after a lost answer.
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
    """The store knows of the bucket what its former ones knew, and what this process holds. Raises StoreUnavailable."""
    before = bucket.store
    if bucket.level.policy.algorithm != "concurrency":  # permits end by themselves, and are not moved
        if before is None or _has_new_primary(before.shard, store.shard):
            await _register(bucket, store)
        await _carry(bucket, store, counters)  # it may have been away and come back since it was asked for here
        await _pay(bucket, store)
    bucket.store = store


async def restore(counters: CounterStore | ShardedStore, used: Mapping[Bucket, int]) -> int:
    """Each bucket has charged at least so much afterwards; gives what was missing. Raises StoreUnavailable."""
    missing = 0
    for bucket, amount in used.items():
        _, added, *_ = await counters.store_of((bucket,)).restore(bucket, amount)
        missing += added
    return missing


async def settle(bucket: Bucket, store: CounterStore) -> None:
    """Tells the store what ended leases spent. Raises StoreUnavailable, and keeps what was not told."""
    while bucket.settling:
        ended = bucket.settling.pop()  # taken first: another call may be settling the same bucket
        try:
            answer = await store.settle(bucket, *ended)
        except BaseException:  # without the store, and when whoever asked goes away
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
    """From wherever the counter may be: a tenant may have moved several times, and back."""
    for former in counters.former_of(bucket):
        if bucket.store is not None and bucket.store.shard.name == former.shard.name:
            bucket.end_lease()
            await settle(bucket, former)
        counted = await former.peek(bucket)
        if held := counted.used + counted.reserved:
            await restore(store, {bucket: held})


async def _pay(bucket: Bucket, store: CounterStore) -> None:
    """After a failover a ``closed`` policy is charged what the old primary may have admitted and not passed on."""
    policy, shard = bucket.level.policy, store.shard
    if policy.failure_mode != "closed" or store.now_s() >= shard.promoted_at + limits.LIMIT_FAILOVER_DEBT_S:
        return
    await store.owe(bucket, f"owed:{shard.name}:{shard.promoted}", lost_at_most(bucket.level.terms))


def lost_at_most(terms: Terms) -> int:
    """What a bucket admits, at its own rate, within the time that a replica may be behind."""
    admitted = terms.refill * limits.LIMIT_REPLICA_LAG_S * _US_PER_S
    return min(terms.capacity, -(-admitted // (terms.period * terms.tick_us)))
