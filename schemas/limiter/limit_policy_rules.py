"""What the fields of a quota policy must fulfil together, each of which is allowed alone."""

from __future__ import annotations

from typing import Any, Final

from schemas.limiter import limits
from schemas.limiter.limit_policy import ANY, NETWORK, UNCOUNTED, FurtherLimit, LimitPolicy, as_policy
from schemas.limiter.limit_terms import SAFE_INTEGER, TICKS_US, counted_window, terms

_WINDOWED: Final = (("capacity", "window_ms"), ("refill_rate", "calendar"))
_NEEDED: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {  # fields that must be given, and must not
    "token_bucket": (("capacity", "refill_rate"), ("window_ms", "calendar")),
    "sliding_window": _WINDOWED,
    "fixed_window": (("capacity",), ("refill_rate",)),
    "concurrency": _WINDOWED,
    "unlimited": ((), ("capacity", "refill_rate", "window_ms", "calendar")),
    "deny": ((), ("capacity", "refill_rate", "window_ms", "calendar")),
}


def wrong_terms(payload: dict[str, Any]) -> list[dict[str, str]]:
    """Why fields that are each allowed do not go together; empty when the policy can be published."""
    needed, others = _NEEDED[payload["algorithm"]]
    wrong = [
        {"field": f"payload.{name}", "reason": f"is required for a {payload['algorithm']}"}
        for name in needed
        if payload[name] is None
    ]
    wrong += [
        {"field": f"payload.{name}", "reason": f"is not a field of a {payload['algorithm']} policy"}
        for name in others
        if payload[name] is not None
    ]
    if payload["algorithm"] == "fixed_window" and (payload["window_ms"] is None) == (payload["calendar"] is None):
        reason = "is required for a fixed_window, or a calendar"
        if payload["calendar"] is not None:
            reason = "must not be given beside a calendar, which says how long windows are"
        wrong.append({"field": "payload.window_ms", "reason": reason})
    if payload["algorithm"] == "concurrency" and payload["consistency"] != "exact":
        wrong.append({"field": "payload.consistency", "reason": "must be exact for a concurrency limit"})
    if payload["algorithm"] == "concurrency" and (payload["capacity"] or 0) > limits.LIMIT_PERMITS_MAX:
        reason = f"must be at most {limits.LIMIT_PERMITS_MAX} for a concurrency limit: permits are kept one by one"
        wrong.append({"field": "payload.capacity", "reason": reason})
    if payload["consistency"] == "durable" and "tenant" not in payload["per"] and payload["scope"]["tenant"] == ANY:
        reason = "must have tenant for durable quotas of all tenants: each tenant's are counted by one owner"
        wrong.append({"field": "payload.per", "reason": reason})
    by_network = NETWORK in payload["per"] or NETWORK in payload["scope"]
    if payload["consistency"] == "durable" and (by_network or payload["algorithm"] in UNCOUNTED):
        reason = "must not be durable for a policy by network, or one that counts nothing"
        wrong.append({"field": "payload.consistency", "reason": reason})
    if (guard := payload["boundary_guard"]) is not None:
        if (
            payload["algorithm"] != "fixed_window"
            or payload["calendar"] is not None
            or payload["consistency"] == "durable"
        ):
            reason = "is only for a fixed_window with window_ms that is exact or leased"
            wrong.append({"field": "payload.boundary_guard", "reason": reason})
        elif guard > (payload["capacity"] or 0):
            wrong.append({"field": "payload.boundary_guard", "reason": "must be at most the capacity"})
    return wrong or _inexact(as_policy(payload, "", 1)) or _wrong_further(payload)


def _wrong_further(payload: dict[str, Any]) -> list[dict[str, str]]:
    """Why a further limit is none: judged as a policy that has no other limit."""
    wrong, limits_seen = [], [_limit_in(payload)]
    for n, further in enumerate(payload["further_limits"] or ()):
        alone = payload | {"boundary_guard": None, "further_limits": None} | further
        found = wrong_terms(alone)
        if payload["algorithm"] in UNCOUNTED or further["algorithm"] in UNCOUNTED:
            found = [{"field": "payload.algorithm", "reason": "must count: this one decides alone"}]
        elif _limit_in(alone) in limits_seen:
            found = [{"field": "payload", "reason": "is another limit of this policy once more"}]
        limits_seen.append(_limit_in(alone))
        wrong += [{**one, "field": f"payload.further_limits[{n}]{one['field'][len('payload') :]}"} for one in found]
    return wrong


def _limit_in(payload: dict[str, Any]) -> dict[str, Any]:
    return {name: payload[name] for name in FurtherLimit.__struct_fields__}


def _inexact(policy: LimitPolicy) -> list[dict[str, str]]:
    """Why the terms of a policy leave exact arithmetic, at every tick of the clock."""
    if terms(policy) is not None:
        return []
    window_us, slots = counted_window(policy)
    if window_us % slots:
        return [{"field": "payload.slots", "reason": "must divide window_ms into slots of whole microseconds"}]
    ticks = [window_us // tick_us for tick_us in TICKS_US if window_us % tick_us == 0]
    most = (SAFE_INTEGER - 1) // min(count for count in ticks if count % slots == 0)
    return [{"field": "payload.capacity", "reason": f"must be at most {most} for this window: counting is exact"}]
