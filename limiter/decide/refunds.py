"""Gives back what a request took, by its identity: all of it, once, or the permits that it held.

The store decides, as long as it remembers the identity. It does not know by request what a lease paid: nothing of that
is given back here, and the answer says so. Source: reference limiter 2.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from limiter.policy import keys
from limiter.store.lease_clock import lease_clock_ns
from schemas import errors

if TYPE_CHECKING:
    from limiter.decide.identities import Identities
    from limiter.spending.key_state import KeyState
    from limiter.store.store import CounterStore


def holds_permits(key: KeyState) -> bool:
    """Whether a level of the key is a concurrency limit, whose permits must be released."""
    return any(bucket.level.policy.algorithm == "concurrency" for bucket in key.buckets)


def require_counted(key: KeyState, request_id: str) -> None:
    """Raises InvalidCommand for a key that cannot have consumed anything."""
    if not key.buckets:
        raise errors.InvalidCommand([{"field": "key", "reason": "is governed by no policy that counts"}])
    if not request_id:
        raise errors.InvalidCommand([{"field": "request_id", "reason": "must be the one that was consumed under"}])


async def refund(key: KeyState, request_id: str, counters: CounterStore, identities: Identities) -> int:
    """The cost that was given back, now or before; 0 if nothing is known of it. Raises StoreUnavailable.

    A later request with that identity is charged anew.
    """
    identity = request_id.encode()
    given = await counters.refund(key.buckets, identity, keys.identity_key(key.name, identity))
    if not given:
        return 0
    identities.doubt((key.name, request_id), lease_clock_ns())  # what is remembered here is outdated
    for bucket in key.buckets:
        bucket.deny_until_ns = 0  # what was refused may fit again
    return given


async def release(key: KeyState, request_id: str, permits: int, counters: CounterStore) -> int:
    """Frees permits and returns how many, over all levels; other charges stay. Raises StoreUnavailable."""
    buckets = [bucket for bucket in key.buckets if bucket.level.policy.algorithm == "concurrency"]
    identity = request_id.encode()
    return await counters.release(buckets, identity, keys.identity_key(key.name, identity), permits) if buckets else 0
