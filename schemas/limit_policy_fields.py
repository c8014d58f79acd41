"""What values the payload of a quota policy may have. What they must fulfil together is in ``limit_policy``."""

from __future__ import annotations

from typing import Final, get_args

from schemas import limit_audit, limit_policy, limits
from schemas.validation import Check, Field, Fields, boolean, choice, clean_text, identity


def _whole(smallest: int, largest: int) -> Check:
    reason = f"must be an integer from {smallest} to {largest}"
    return lambda value: None if type(value) is int and smallest <= value <= largest else reason


def _limit_scope(value: object) -> str | None:
    if not isinstance(value, dict) or value.keys() != set(limit_policy.KEY_PARTS):
        return "must have tenant, user and route, each a value or *"
    for name, text in value.items():
        if reason := clean_text(text, limits.LIMIT_KEY_PART_LENGTH_MAX):
            return f"{name} {reason}"
    return None


def _key_parts(value: object) -> str | None:
    allowed = limit_policy.KEY_PARTS
    if not isinstance(value, list) or not value or len(set(map(str, value))) < len(value):
        return "must be a list of different key parts"
    return None if all(part in allowed for part in value) else "must be of " + ", ".join(allowed)


PUBLISH_POLICY: Final[Fields] = {
    "policy_id": Field(identity, None, nullable=True),  # absent = a new policy
    "scope": Field(_limit_scope),
    "per": Field(_key_parts, list(limit_policy.KEY_PARTS)),  # the parts that a counter is kept by
    "algorithm": Field(choice(*get_args(limit_policy.Algorithm))),
    "capacity": Field(_whole(1, limit_policy.CAPACITY_MAX)),
    "refill_rate": Field(_whole(1, limit_policy.CAPACITY_MAX), None, nullable=True),
    "refill_period_ms": Field(_whole(1, limits.LIMIT_WINDOW_MS_MAX), 1_000),
    "window_ms": Field(_whole(1, limits.LIMIT_WINDOW_MS_MAX), None, nullable=True),
    "slots": Field(_whole(1, limits.LIMIT_SLOTS_MAX), 10),
    "strict": Field(boolean, default=False),
    "consistency": Field(choice(*get_args(limit_policy.Consistency)), "leased"),
    "failure_mode": Field(choice(*get_args(limit_policy.FailureMode)), "closed"),
    "shadow": Field(boolean, default=False),
    "audit": Field(limit_audit.wrong_audit, "full"),
}
