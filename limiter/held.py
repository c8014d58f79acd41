"""What a gateway decides with what it holds: leases of all levels of a key, a refusal that stands, a known identity.

One thread, and no waiting in between: all levels are spent, or none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from limiter.decision import Decision
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from limiter.buckets import Bucket, KeyState
    from limiter.identities import Known

_NS_PER_MS: Final = 1_000_000


def spent_of_all(key: KeyState, cost: int, now_ns: int, refill_soon: Callable[[Bucket], None]) -> Decision | None:
    """Spends of the lease of every level, or of none when one of them does not hold enough: then None."""
    for bucket in key.buckets:
        if bucket.left < cost or now_ns >= bucket.lease_ends_ns:
            return None
    for bucket in key.buckets:
        bucket.left -= cost
        if bucket.left < bucket.refill_below:
            bucket.refill_below = 0
            refill_soon(bucket)
    return allowed(key)


def refused(key: KeyState, cost: int, now_ns: int) -> Decision | None:
    """The refusal that a level gave lately and that holds for this cost too, of the level to wait for longest."""
    longest: Bucket | None = None
    for bucket in key.real:
        stands = now_ns < bucket.deny_until_ns and cost >= bucket.deny_cost > 0
        if stands and (longest is None or bucket.deny_until_ns > longest.deny_until_ns):
            longest = bucket
    if longest is None:
        return None
    longest.seen += cost
    return Decision(
        allowed=False,
        remaining=0,
        reset_ms=longest.reset_ms,
        retry_after_ms=(longest.deny_until_ns - now_ns) // _NS_PER_MS + 1,
        policy_id=longest.id_,
        policy_version=longest.version,
        approximate=True,
    )


def allowed(key: KeyState) -> Decision:
    """Of the level that has least left."""
    least = min(key.real, key=lambda bucket: bucket.remaining + bucket.left)
    return Decision(
        allowed=True,
        remaining=least.remaining + least.left,
        reset_ms=least.reset_ms,
        retry_after_ms=0,
        policy_id=least.id_,
        policy_version=least.version,
        approximate=True,
    )


def repeated(key: KeyState, cost: int, known: Known) -> Decision:
    """The answer of an identity again; nothing is consumed. Raises KeyReused when it had another cost."""
    before, answer = known
    if before != cost:
        raise errors.KeyReused
    decided = answer or allowed(key)
    return decided._replace(duplicate=decided.allowed)
