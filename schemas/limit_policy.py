"""Quota policies: what they say, what values they may have, and their exact arithmetic.

Everything is integers below 2^53: the counter store computes in doubles. A policy whose terms could leave that range is
refused when it is published, never when it decides. Source: spec 3 section 2, reference limiter 2.1.
"""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

import msgspec
from msgspec import Struct

from schemas import limits

Algorithm = Literal["token_bucket", "sliding_window", "fixed_window", "concurrency"]
Consistency = Literal["exact", "leased", "durable"]
FailureMode = Literal["open", "closed", "stale"]
Audit = Literal["full", "denied", "aggregate"]
KeyPart = Literal["tenant", "user", "route"]

KEY_PARTS: Final[tuple[KeyPart, ...]] = get_args(KeyPart)
ANY: Final = "*"
SAFE_INTEGER: Final = 2**52  # products of capacity and ticks stay below it: exact in a double, with room for a sum
_TICKS_US: Final = (1, 1_000, 1_000_000)
_CODES: Final[dict[str, int]] = {"token_bucket": 0, "sliding_window": 1, "fixed_window": 2, "concurrency": 3}


class Scope(Struct, frozen=True):
    """Which keys a policy is for: a value of each part, or ``*`` for every one."""

    tenant: str
    user: str
    route: str

    def covers(self, parts: dict[str, str]) -> bool:
        """Whether a key with these parts is governed."""
        return all(getattr(self, name) in (ANY, parts[name]) for name in KEY_PARTS)

    @property
    def specificity(self) -> tuple[int, ...]:
        """Orders policies of one level: more named parts first, then tenant before user before route."""
        named = tuple(int(getattr(self, name) != ANY) for name in KEY_PARTS)
        return (sum(named), *named)


class LimitPolicy(Struct, frozen=True, kw_only=True):
    """One version of a quota policy."""

    policy_id: str
    version: int
    scope: Scope
    per: tuple[KeyPart, ...]
    algorithm: Algorithm
    capacity: int
    refill_rate: int | None  # tokens per ``refill_period_ms``
    refill_period_ms: int
    window_ms: int | None  # of windows; of a permit that is not released, for a concurrency limit
    slots: int  # of a sliding window
    strict: bool  # the fading slot of a sliding window counts whole
    consistency: Consistency
    failure_mode: FailureMode
    shadow: bool
    audit: Audit


def counted_by(policy: LimitPolicy, parts: dict[str, str]) -> str:
    """The values of a key that a policy keeps one counter for."""
    return "\x1f".join(parts[part] for part in KEY_PARTS if part in policy.per)


class Terms(Struct, frozen=True):
    """A policy as the counter store computes with it: ``capacity`` tokens, ``refill`` of them per ``period`` ticks."""

    algorithm: int
    capacity: int
    refill: int
    period: int
    slots: int
    tick_us: int
    strict: bool


def terms(policy: LimitPolicy) -> Terms | None:
    """The terms with the finest clock that keeps the arithmetic exact; None when there is none."""
    window = policy.refill_period_ms if policy.algorithm == "token_bucket" else policy.window_ms or 0
    refill = (policy.refill_rate or 0) if policy.algorithm == "token_bucket" else policy.capacity
    slots = policy.slots if policy.algorithm == "sliding_window" else 1
    for tick_us in _TICKS_US:
        period, rest = divmod(window * 1_000, tick_us)
        fits = policy.capacity * period < SAFE_INTEGER and refill < SAFE_INTEGER
        if rest == 0 and period > 0 and period % slots == 0 and fits:
            return Terms(
                _CODES[policy.algorithm], policy.capacity, max(refill, 1), period, slots, tick_us, policy.strict
            )
    return None


def wrong_terms(payload: dict[str, Any]) -> list[dict[str, str]]:
    """Why fields that are each allowed do not go together; empty when the policy can be published."""
    bucket = payload["algorithm"] == "token_bucket"
    needed, other = ("refill_rate", "window_ms") if bucket else ("window_ms", "refill_rate")
    wrong = []
    if payload[needed] is None:
        wrong.append({"field": f"payload.{needed}", "reason": f"is required for a {payload['algorithm']}"})
    if payload[other] is not None:
        wrong.append({"field": f"payload.{other}", "reason": f"is not a field of a {payload['algorithm']}"})
    if payload["algorithm"] == "concurrency" and payload["consistency"] != "exact":
        wrong.append({"field": "payload.consistency", "reason": "must be exact for a concurrency limit"})
    if payload["consistency"] == "durable" and "tenant" not in payload["per"] and payload["scope"]["tenant"] == ANY:
        reason = "must have tenant for durable quotas of all tenants: each tenant's are counted by one owner"
        wrong.append({"field": "payload.per", "reason": reason})
    if not wrong and terms(as_policy(payload, "", 1)) is None:
        reason = "capacity times the period leaves exact arithmetic, or slots do not divide the window"
        wrong.append({"field": "payload.capacity", "reason": reason})
    return wrong


def as_policy(payload: dict[str, Any], policy_id: str, version: int) -> LimitPolicy:
    """The policy that a validated payload publishes."""
    per = tuple(part for part in KEY_PARTS if part in payload["per"])
    return msgspec.convert({**payload, "per": per, "policy_id": policy_id, "version": version}, LimitPolicy)


def rendered(policy: LimitPolicy) -> dict[str, Any]:
    """The public resource of a policy, without its versions."""
    return {
        "policy_id": policy.policy_id,
        "object": "policy",
        "version": policy.version,
        "scope": {name: getattr(policy.scope, name) for name in KEY_PARTS},
        "per": list(policy.per),
        **{name: getattr(policy, name) for name in _PLAIN},
    }


_PLAIN: Final = tuple(
    name for name in LimitPolicy.__struct_fields__ if name not in ("policy_id", "version", "scope", "per")
)
CAPACITY_MAX: Final = SAFE_INTEGER - 1
WINDOW_MS_MAX: Final = limits.LIMIT_WINDOW_MS_MAX
