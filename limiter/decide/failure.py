"""Decides without the counter store, by the failure mode of each policy; every answer says that it is degraded.

``closed`` refuses. ``stale`` spends the leases that are held (the limiter has spent them before it comes here) and then
refuses. ``open`` allows what an emergency counter of this process allows: this process's part of the policy's capacity
in each period, at least 1, so that an outage is bounded, too. If a timeout were reported as plain success, it would be
a hole.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from limiter.spending.decision import UNLIMITED, Decision
from schemas import errors
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from limiter.policy.level import Level
    from limiter.spending.buckets import Bucket
    from limiter.spending.fields import Identity
    from limiter.spending.key_state import KeyState

_RETRY_MS: Final = int(limits.LIMIT_STORE_RETRY_S * 1_000)
_US_PER_S: Final = 1_000_000
_MS_PER_S: Final = 1_000
_COUNTERS_MAX: Final = 100_000


class WithoutStore:
    """The emergency counters of one process. Each of several gateways has its part of a policy's capacity."""

    def __init__(self, gateways: int = 1, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._gateways = gateways
        self._clock_s = clock_s
        #: by bucket: since when, how much. The oldest makes room when there are too many
        self._spent: OrderedDict[bytes, tuple[float, int]] = OrderedDict()
        self._allowed: tuple[dict[Identity, int], dict[Identity, int]] = ({}, {})  # young and old: what each had cost
        self._turned_at = clock_s()

    def decide(self, key: KeyState, cost: int, request_id: str | None = None) -> Decision:
        """The answer of the strictest failure mode among the policies of a key. Raises KeyReused.

        A policy in shadow mode decides nothing. An identity that was allowed here is allowed again and consumes
        nothing more.
        """
        real = key.real
        if not real:
            return UNLIMITED
        strict = next((bucket for bucket in real if bucket.level.policy.failure_mode != "open"), None)
        if strict is not None:
            return _refusal(strict.level)
        last = real[-1]
        now = self._clock_s()
        if request_id is not None and (before := self._cost_of((key.name, request_id), now)) is not None:
            if before != cost:
                raise errors.KeyReused
            return _allowance(last.level, duplicate=True)
        for bucket in real:
            if not self._may_spend(bucket, cost, now):
                return _refusal(bucket.level)
        for bucket in real:
            since, spent = self._spent.pop(bucket.keys[0], (now, 0))
            self._spent[bucket.keys[0]] = (since, spent + cost)
        while len(self._spent) > _COUNTERS_MAX:
            self._spent.popitem(last=False)
        if request_id is not None:
            self._allowed[0][key.name, request_id] = cost
        return _allowance(last.level, duplicate=False)

    def _cost_of(self, identity: Identity, now: float) -> int | None:
        """What an identity was allowed lately; each half of that time keeps a bounded number.

        Nobody comes here between two outages: what was allowed in an earlier one is over.
        """
        young, age_s, life_s = self._allowed[0], now - self._turned_at, limits.LIMIT_IDENTITY_MS / _MS_PER_S
        if age_s > life_s or len(young) >= limits.LIMIT_DOUBTS_MAX:
            self._allowed, self._turned_at = ({}, {} if age_s > 2 * life_s else young), now
        young, old = self._allowed
        return young.get(identity, old.get(identity))

    def _may_spend(self, bucket: Bucket, cost: int, now: float) -> bool:
        terms = bucket.level.terms
        periods = terms.period * terms.tick_us / _US_PER_S
        period_s = periods * terms.capacity / terms.refill if terms.algorithm == 0 else periods
        since, spent = self._spent.get(bucket.keys[0], (now, 0))
        if now - since > period_s:
            spent = 0
            self._spent.pop(bucket.keys[0], None)
        return spent + cost <= max(1, terms.capacity // self._gateways)


def _allowance(level: Level, *, duplicate: bool) -> Decision:
    return Decision(
        allowed=True,
        remaining=0,
        reset_ms=0,
        retry_after_ms=0,
        policy_id=level.id_,
        policy_version=level.version,
        approximate=True,
        degraded=True,
        duplicate=duplicate,
    )


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
