"""Keys of callers who are not let in any more: no policy governs them, they are refused.

A gateway sees no token. It knows a caller by the parts that this platform counts it by: in whose name it acts is the
tenant, the person the user. What refuses single tokens, or those so far, is kept where tokens are shown. Snapshots hold
digests, so whoever may read one learns no name.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from limiter.policy import keys
from schemas.limiter import limits
from schemas.limiter.limit_policy import LimitPolicy, Scope
from schemas.operators.access_denial import SUBJECT

if TYPE_CHECKING:
    from collections.abc import Collection

#: what answers for them, by the name that decisions and Envoy's clients are told
DENIAL: Final = LimitPolicy(
    policy_id="access_denied",
    version=1,
    scope=Scope("*", "*", "*"),
    per=("tenant",),
    algorithm="deny",
    refill_period_ms=1_000,
    slots=1,
    strict=False,
    consistency="exact",
    failure_mode="closed",
    shadow=False,
    audit="denied",
)


def digests(kind: str, name: str) -> tuple[str, ...]:
    """What keys of somebody who is denied are known by. A tenant's are under its own name, too."""
    if kind == SUBJECT:
        return (_digest("user", keys.user(name)),)
    tenants = {"merchant": (name,), "tenant": (f"tenant:{name}", name), "user": (f"user:{name}",)}
    return tuple(_digest("tenant", tenant) for tenant in tenants.get(kind, ()))


def is_denied(denied: Collection[str], parts: dict[str, str]) -> bool:
    """Whether a key in its normal form is of one of them."""
    return any(_digest(part, parts[part]) in denied for part in ("tenant", "user"))


def _digest(part: str, value: str) -> str:
    return hashlib.sha256(f"{part}\x1f{value}".encode()).hexdigest()[: limits.LIMIT_DENIED_DIGEST_LENGTH]
