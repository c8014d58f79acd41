"""Consuming and refunding the durable quotas of a tenant: every level that governs a request is charged, or none.

Pure: the counters that a decision changed are new ones, so a refusal leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from schemas.limiter import limits
from schemas.limiter.durable_counter import Charge, OwnedCounter
from schemas.limiter.exact_counter import ExactCounter
from schemas.limiter.limit_policy import LimitPolicy
from schemas.limiter.limit_terms import terms
from schemas.records import Denial

_RETENTION_US: Final = limits.LIMIT_DURABLE_RETENTION_S * 1_000_000


class Governed(Struct, frozen=True):
    """A policy that governs a request, and its counter; None before the first charge."""

    policy: LimitPolicy
    counter: OwnedCounter | None


class LevelLeft(Struct, frozen=True):
    """What a level answers."""

    policy_id: str
    policy_version: int
    remaining: int
    reset_us: int
    retry_us: int  # 0 where the cost fits, -1 where it never will


class Consumption(Struct, frozen=True):
    """What a request took. ``counters`` are those of the policies, None for one that was not charged."""

    levels: list[LevelLeft]
    counters: list[OwnedCounter | None]


def decide_consume(governed: Sequence[Governed], cost: int, version: int, now: int) -> Consumption | Denial:
    """Charges all levels, or none. ``version`` is the one of the tenant's quotas before this request.

    A policy in shadow mode refuses nobody, and is charged only what fits.
    """
    counters = [_current(level, version, now) for level in governed]
    fits = [cost <= owned.counter.available(now) for owned in counters]
    allowed = all(fit or level.policy.shadow for level, fit in zip(governed, fits, strict=True))
    charged: list[OwnedCounter | None] = []
    for owned, fit in zip(counters, fits, strict=True):
        takes = allowed and fit and cost > 0
        if takes:
            owned.counter.charge(now, cost)
        charged.append(owned if takes else None)
    levels = [_left(level, owned, cost, fit, now) for level, owned, fit in zip(governed, counters, fits, strict=True)]
    if allowed:
        return Consumption(levels, charged)
    return Denial("quota_exceeded", "A durable quota does not allow this request now.", {"levels": levels})


def refund(owned: OwnedCounter, charge: Charge, now: int) -> OwnedCounter:
    """The counter without what is left of a charge."""
    counter = owned.counter.copy()
    counter.give_back(now, charge.charged_at, charge.cost)
    return OwnedCounter(
        policy_version=owned.policy_version,
        counter=counter,
        base=owned.base,
        base_version=owned.base_version,
        base_at=owned.base_at,
    )


def _current(level: Governed, version: int, now: int) -> OwnedCounter:
    """A counter of its own under the terms in force: the newest version of a policy decides, and usage is kept."""
    owned, policy = level.counter, level.policy
    found = terms(policy)
    if found is None:
        raise ValueError(f"{policy.policy_id} has no exact terms: publication refuses such a policy")
    if owned is None:
        return _based(ExactCounter(found), policy.version, version, now)
    counter = owned.counter.copy()
    if policy.version > owned.policy_version and found != counter.terms:
        counter.carry_over(found, now, now)
        return _based(counter, policy.version, version, now)
    if now - owned.base_at > _RETENTION_US:
        return _based(counter, max(policy.version, owned.policy_version), version, now)
    return OwnedCounter(
        policy_version=max(policy.version, owned.policy_version),
        counter=counter,
        base=owned.base,
        base_version=owned.base_version,
        base_at=owned.base_at,
    )


def _based(counter: ExactCounter, policy_version: int, version: int, now: int) -> OwnedCounter:
    return OwnedCounter(
        policy_version=policy_version, counter=counter, base=counter.copy(), base_version=version, base_at=now
    )


def _left(level: Governed, owned: OwnedCounter, cost: int, fits: bool, now: int) -> LevelLeft:
    counter = owned.counter
    return LevelLeft(
        policy_id=level.policy.policy_id,
        policy_version=owned.policy_version,
        remaining=max(0, counter.available(now)),
        reset_us=counter.reset_us(now),
        retry_us=0 if fits else counter.retry_us(now, cost),
    )
