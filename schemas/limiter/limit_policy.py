"""Quota policies: what they say, which keys they are for and what they count by. Source: spec 3 section 2."""

from __future__ import annotations

import hashlib
from typing import Any, Final, Literal, get_args

import msgspec
from msgspec import Struct, structs

from schemas.calendar_windows import Calendar
from schemas.client_network import client_network, widened
from schemas.limiter import limits

#: the last two decide without counting
Algorithm = Literal["token_bucket", "sliding_window", "fixed_window", "concurrency", "unlimited", "deny"]
Consistency = Literal["exact", "leased", "durable"]
FailureMode = Literal["open", "closed", "stale"]
Audit = str  # what the stream of decisions keeps: ``limit_audit`` says which texts there are
KeyPart = Literal["tenant", "user", "route", "network"]

NETWORK: Final = "network"
KEY_PARTS: Final[tuple[KeyPart, ...]] = ("tenant", "user", "route")  # of a limit key
COUNTED_BY: Final[tuple[KeyPart, ...]] = get_args(KeyPart)  # what a counter may be kept by
ANY: Final = "*"
UNCOUNTED: Final = ("unlimited", "deny")
_PLACE: Final = "/"  # no id of a policy has one


class Scope(Struct, frozen=True):
    """Which keys a policy is for: a value of each part, or ``*`` for every one; of networks, those within."""

    tenant: str
    user: str
    route: str
    network: str = ANY

    def covers(self, parts: dict[str, str]) -> bool:
        """Whether a key with these parts is governed, from wherever it is asked for."""
        return all(getattr(self, name) in (ANY, parts[name]) for name in KEY_PARTS)

    @property
    def specificity(self) -> tuple[int, ...]:
        """Orders policies of one level: more named parts, then tenant before user before route before network.

        Of two networks the narrower one.
        """
        named = tuple(int(getattr(self, name) != ANY) for name in COUNTED_BY)
        return (sum(named), *named, 0 if self.network == ANY else client_network(self.network).prefixlen)


class FurtherLimit(Struct, frozen=True, kw_only=True):
    """One more limit of a policy: of the same keys, counted by the same parts."""

    algorithm: Algorithm
    capacity: int
    refill_rate: int | None = None
    refill_period_ms: int = 1_000
    window_ms: int | None = None
    slots: int = 10
    strict: bool = False
    calendar: Calendar | None = None


class LimitPolicy(Struct, frozen=True, kw_only=True):
    """One version of a quota policy."""

    policy_id: str
    version: int
    scope: Scope
    per: tuple[KeyPart, ...]
    algorithm: Algorithm
    capacity: int = 0
    refill_rate: int | None = None  # tokens per ``refill_period_ms``
    refill_period_ms: int
    window_ms: int | None = None  # of windows of one length; of a permit that is not released, for a concurrency limit
    slots: int  # of a sliding window
    strict: bool  # the fading slot of a sliding window counts whole
    consistency: Consistency
    failure_mode: FailureMode
    shadow: bool
    audit: Audit
    calendar: Calendar | None = None  # of a fixed window that has no ``window_ms``
    boundary_guard: int | None = None  # so much of a fixed window passes at once, the rest evenly
    network_prefix_v4: int = limits.LIMIT_NETWORK_PREFIX_V4  # of the networks that counters are kept by
    network_prefix_v6: int = limits.LIMIT_NETWORK_PREFIX_V6
    withdrawn: bool = False  # for good: no gateway decides by it any more
    further_limits: tuple[FurtherLimit, ...] = ()  # all have to allow, and a request charges all

    @property
    def is_counted(self) -> bool:
        """Whether it needs counters: the others decide by what they are."""
        return self.algorithm not in UNCOUNTED

    @property
    def is_by_network(self) -> bool:
        """Whether it governs only calls that say from where they come."""
        return self.scope.network != ANY or NETWORK in self.per


def guard_of(policy: LimitPolicy) -> LimitPolicy | None:
    """What holds beside a fixed window that guards its boundaries, under the same name: a bucket of the same rate.

    Bound: in any interval as long as a window, the capacity and what the bucket holds. Source: reference limiter 2.5.
    """
    if policy.boundary_guard is None:
        return None
    return structs.replace(
        policy,
        algorithm="token_bucket",
        capacity=policy.boundary_guard,
        refill_rate=policy.capacity,
        refill_period_ms=policy.window_ms or 1,
        window_ms=None,
        boundary_guard=None,
        further_limits=(),
    )


def further_limits_of(policy: LimitPolicy) -> tuple[LimitPolicy, ...]:
    """What holds beside the first limit of a policy, each as a policy of its own called ``<policy_id>/<place>``.

    The place of a limit in its policy is its name, from 2 on: what it counted is kept when the next version changes it.
    """
    return tuple(
        structs.replace(
            policy,
            policy_id=f"{policy.policy_id}{_PLACE}{place}",
            boundary_guard=None,
            further_limits=(),
            **structs.asdict(further),
        )
        for place, further in enumerate(policy.further_limits, start=2)
    )


def limit_of(policy: LimitPolicy, name: str) -> LimitPolicy | None:
    """The limit of a policy that is called so: the policy itself, or a further one."""
    return next((found for found in (policy, *further_limits_of(policy)) if found.policy_id == name), None)


def policy_of(name: str) -> str:
    """The policy that a limit belongs to."""
    return name.partition(_PLACE)[0]


def place_of(policy: LimitPolicy) -> str:
    """What only one policy may have: of two of equal scope that count by the same parts one would decide nothing."""
    named = [*(getattr(policy.scope, name) for name in COUNTED_BY), ",".join(policy.per), str(policy.shadow).lower()]
    return hashlib.sha256("\x1f".join(named).encode()).hexdigest()


def spans_tenants(policy: LimitPolicy) -> bool:
    """Whether one counter of it is of several tenants: then it cannot be on one of several shards."""
    return policy.is_counted and "tenant" not in policy.per and policy.scope.tenant == ANY


def counted_by(policy: LimitPolicy, parts: dict[str, str]) -> str:
    """The values of a key that a policy keeps one counter for; of a network, as wide as the policy counts."""
    if NETWORK in policy.per:
        counted = widened(client_network(parts[NETWORK]), policy.network_prefix_v4, policy.network_prefix_v6)
        parts = {**parts, NETWORK: str(counted)}
    return "\x1f".join(parts[part] for part in COUNTED_BY if part in policy.per)


def as_policy(payload: dict[str, Any], policy_id: str, version: int) -> LimitPolicy:
    """The policy that a validated payload publishes; what it leaves out is as the struct says."""
    given = {name: value for name, value in payload.items() if value is not None}
    scope = {name: value for name, value in payload["scope"].items() if value is not None}
    per = tuple(part for part in COUNTED_BY if part in payload["per"])
    made = {**given, "scope": scope, "per": per, "policy_id": policy_id, "version": version}
    return msgspec.convert(made, LimitPolicy)


def rendered(policy: LimitPolicy) -> dict[str, Any]:
    """The public resource of a policy, without its versions."""
    return {
        "policy_id": policy.policy_id,
        "object": "policy",
        "version": policy.version,
        "scope": {name: getattr(policy.scope, name) for name in COUNTED_BY},
        "per": list(policy.per),
        **{name: getattr(policy, name) for name in _PLAIN},
        "capacity": policy.capacity if policy.is_counted else None,
        "calendar": _plain(policy.calendar),
        "further_limits": [
            {**structs.asdict(further), "calendar": _plain(further.calendar)} for further in policy.further_limits
        ]
        or None,
    }


def _plain(calendar: Calendar | None) -> dict[str, Any] | None:
    return None if calendar is None else structs.asdict(calendar)


_PLAIN: Final = tuple(
    name for name in LimitPolicy.__struct_fields__ if name not in ("policy_id", "version", "scope", "per", "withdrawn")
)
