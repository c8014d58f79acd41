"""What a caller is answered."""

from __future__ import annotations

from typing import NamedTuple


class Decision(NamedTuple):
    """One decision. Times are milliseconds from now, rounded up.

    ``remaining`` is exact where every decision goes to the store, and an upper estimate (``approximate``) where a lease
    answered. ``retry_after_ms`` is the least wait after which this cost can pass, -1 when it never can. ``degraded``:
    the store did not answer, and the policy's failure mode did.
    """

    allowed: bool
    remaining: int
    reset_ms: int
    retry_after_ms: int
    policy_id: str  # the policy that decided: the one that denied, or that has least left; "" when none governs the key
    policy_version: int
    approximate: bool = False
    degraded: bool = False
    duplicate: bool = False  # the same identity was decided before: nothing was consumed now


#: no policy governs the key
UNLIMITED = Decision(allowed=True, remaining=-1, reset_ms=0, retry_after_ms=0, policy_id="", policy_version=0)
