"""Decisions without the counter store: each policy says what it wants then, and every answer says that it is degraded.

``closed`` refuses. ``stale`` goes on with the leases that are held (the limiter spends them before it comes here) and
then refuses. ``open`` lets through what an emergency counter of this process allows: the policy's own capacity once for
every period, so that an outage is bounded too. If a timeout were reported as plain success, it would be a hole.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from limiter.decision import Decision
from schemas import limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from limiter.buckets import Bucket
    from limiter.policies import Level

_RETRY_MS: Final = int(limits.LIMIT_STORE_RETRY_S * 1_000)
_US_PER_S: Final = 1_000_000
_COUNTERS_MAX: Final = 100_000


class WithoutStore:
    """The emergency counters of one process."""

    def __init__(self) -> None:
        self._spent: dict[bytes, tuple[float, int]] = {}  # by bucket: since when, how much

    def decide(self, buckets: Sequence[Bucket], cost: int) -> Decision:
        """The answer of the strictest failure mode among the policies of a key."""
        real = [bucket for bucket in buckets if not bucket.level.policy.shadow]
        for bucket in real:
            if bucket.level.policy.failure_mode != "open":
                return _refusal(bucket.level)
        now = time.monotonic()
        for bucket in real:
            if not self._may_spend(bucket, cost, now):
                return _refusal(bucket.level)
        for bucket in real:
            since, spent = self._spent.get(bucket.keys[0], (now, 0))
            self._spent[bucket.keys[0]] = (since, spent + cost)
        last = real[-1] if real else buckets[-1]
        return Decision(
            allowed=True,
            remaining=0,
            reset_ms=0,
            retry_after_ms=0,
            policy_id=last.id_,
            policy_version=last.version,
            approximate=True,
            degraded=True,
        )

    def _may_spend(self, bucket: Bucket, cost: int, now: float) -> bool:
        if len(self._spent) >= _COUNTERS_MAX:
            self._spent.clear()
        terms = bucket.level.terms
        periods = terms.period * terms.tick_us / _US_PER_S
        period_s = periods * terms.capacity / terms.refill if terms.algorithm == 0 else periods
        since, spent = self._spent.get(bucket.keys[0], (now, 0))
        if now - since > period_s:
            spent = 0
            self._spent[bucket.keys[0]] = (now, 0)
        return spent + cost <= terms.capacity


def _refusal(level: Level) -> Decision:
    return Decision(
        allowed=False,
        remaining=0,
        reset_ms=_RETRY_MS,
        retry_after_ms=_RETRY_MS,
        policy_id=level.id_,
        policy_version=level.version,
        degraded=True,
    )
