"""Decides by what a gateway holds: leases of all levels of a key, a refusal that still holds, a known identity.

On one thread without waiting in between, so all levels are spent or none.
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
_WINDOWS: Final = (2, CALENDAR_CODE)  # at its end everything that fits in a window passes


def spent_of_all(
    key: KeyState,
    cost: int,
    now_ns: int,
    refill_soon: Callable[[Bucket], None],
    shadows: list[Shadow],
) -> Decision | None:
    """Spends from the lease of every level; from none, and returns None, if one does not hold enough.

    A level in shadow mode that the store lately found exhausted needs no lease: it would refuse, and is added to
    ``shadows``.
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
    """Whether a shadow level's refusal of this cost still holds. If it has a lease, the store is asked."""
    is_refused = now_ns < bucket.deny_until_ns and cost >= bucket.deny_cost > 0
    return bucket.level.policy.shadow and is_refused and not bucket.lease_id


def refused(key: KeyState, cost: int, now_ns: int, shadows: list[Shadow]) -> Decision | None:
    """A recent refusal that still holds for this cost, of the level with the longest wait.

    Adds to ``shadows`` those that would refuse it as the store said.
    """
    longest: Bucket | None = None
    longest_ns = 0.0
    for bucket in key.real:
        if now_ns >= bucket.deny_until_ns or not cost >= bucket.deny_cost > 0:
            continue
        retry_ns = _may_pass_ns(bucket, cost)
        if retry_ns is None:
            return None  # only the store knows
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
    """When a cost not below the refused one may pass; inf for never, None if that cannot be derived."""
    terms = bucket.level.terms
    if bucket.deny_retry_ns < 0 or cost > terms.capacity:
        return math.inf
    if terms.algorithm == _TOKEN_BUCKET:
        more = -(-(cost - bucket.deny_cost) * terms.period // terms.refill)
        return bucket.deny_retry_ns + more * terms.tick_us * _NS_PER_US
    return bucket.deny_retry_ns if cost == bucket.deny_cost or terms.algorithm in _WINDOWS else None


def allowed(key: KeyState) -> Decision:
    """The answer of the level with least left; of no level if all are in shadow mode."""
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
    """Repeats an identity's answer; consumes nothing. Raises KeyReused if it had another cost."""
    before, answer = known
    if before != cost:
        raise errors.KeyReused
    decided = answer or allowed(key)
    return decided._replace(duplicate=decided.allowed)
