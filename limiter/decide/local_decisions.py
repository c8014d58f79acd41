"""What a gateway decides with what it holds: leases of all levels of a key, a refusal that stands, a known identity.

One thread, and no waiting in between: all levels are spent, or none.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from limiter.spending.decision import UNLIMITED, Decision
from schemas import errors
from schemas.limiter.limit_terms import CALENDAR_CODE

if TYPE_CHECKING:
    from collections.abc import Callable

    from limiter.decide.identities import Known
    from limiter.spending.buckets import Bucket
    from limiter.spending.key_state import KeyState
    from limiter.stream.decisions import Shadow

_NS_PER_MS: Final = 1_000_000
_NS_PER_US: Final = 1_000
_TOKEN_BUCKET: Final = 0
_WINDOWS: Final = (2, CALENDAR_CODE)  # all that fits in one passes when it ends


def spent_of_all(
    key: KeyState,
    cost: int,
    now_ns: int,
    refill_soon: Callable[[Bucket], None],
    shadows: list[Shadow],
) -> Decision | None:
    """Spends of the lease of every level, or of none when one of them does not hold enough: then None.

    A level in shadow mode that the store found exhausted lately is not waited for: it would refuse, and is one of
    the ``shadows`` afterwards.
    """
    for bucket in key.buckets:
        if (bucket.left < cost or now_ns >= bucket.lease_ends_ns) and not _is_exhausted_shadow(bucket, cost, now_ns):
            return None
    for bucket in key.buckets:
        if bucket.left < cost:
            shadows.append(bucket)
            continue
        bucket.left -= cost
        if bucket.left < bucket.refill_below:
            bucket.refill_below = 0
            refill_soon(bucket)
    return allowed(key)


def _is_exhausted_shadow(bucket: Bucket, cost: int, now_ns: int) -> bool:
    """Its refusal of so much still holds. One that holds a lease is asked of the store, which then has it back."""
    is_refused = now_ns < bucket.deny_until_ns and cost >= bucket.deny_cost > 0
    return bucket.level.policy.shadow and is_refused and not bucket.lease_id


def refused(key: KeyState, cost: int, now_ns: int, shadows: list[Shadow]) -> Decision | None:
    """The refusal that a level gave lately and that holds for this cost too, of the level to wait for longest.

    ``shadows``: afterwards those too of which the store said that they would refuse it.
    """
    longest: Bucket | None = None
    longest_ns = 0.0
    for bucket in key.real:
        if now_ns >= bucket.deny_until_ns or not cost >= bucket.deny_cost > 0:
            continue
        retry_ns = _may_pass_ns(bucket, cost)
        if retry_ns is None:
            return None  # only the store can say
        if longest is None or retry_ns > longest_ns:
            longest, longest_ns = bucket, retry_ns
    if longest is None:
        return None
    longest.seen += cost
    if key.real is not key.buckets:
        shadows += [bucket for bucket in key.buckets if _is_exhausted_shadow(bucket, cost, now_ns)]
    return Decision(
        allowed=False,
        remaining=max(0, longest.remaining),
        reset_ms=longest.reset_ms,
        retry_after_ms=-1 if longest_ns == math.inf else max(1, -(-int(longest_ns - now_ns) // _NS_PER_MS)),
        policy_id=longest.id_,
        policy_version=longest.version,
        approximate=True,
    )


def _may_pass_ns(bucket: Bucket, cost: int) -> float | None:
    """When a cost may pass that is not below the refused one: never (inf), or None where that does not follow."""
    terms = bucket.level.terms
    if bucket.deny_retry_ns < 0 or cost > terms.capacity:
        return math.inf
    if terms.algorithm == _TOKEN_BUCKET:
        more = -(-(cost - bucket.deny_cost) * terms.period // terms.refill)
        return bucket.deny_retry_ns + more * terms.tick_us * _NS_PER_US
    return bucket.deny_retry_ns if cost == bucket.deny_cost or terms.algorithm in _WINDOWS else None


def allowed(key: KeyState) -> Decision:
    """Of the level that has least left; of none when all are in shadow mode."""
    if not key.real:
        return UNLIMITED
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
