"""The quotas of the replay: an access log as four kinds of traffic, each each with an algorithm of its own.

Half-way the feeds' quota is lowered and the downloads' is raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from schemas.limiter.limit_policy import LimitPolicy, Scope

if TYPE_CHECKING:
    from compose.proof.demo.limiter.access_log import Visit

PAGES, ASSETS, DOWNLOADS, FEEDS = "pages", "assets", "downloads", "feeds"
_ASSETS: Final = ("css", "js", "ico")
_DOWNLOADS: Final = ("png", "jpg", "jpeg", "gif", "svg", "pdf", "gz", "zip", "mp4", "webm")
_FEEDS: Final = ("feed", "rss", "atom", "robots.txt", "xml")
_COST_BYTES: Final = 65_536
_COST_MAX: Final = 4
_ROUTE_LENGTH: Final = 64


class Asked(NamedTuple):
    """What a gateway is asked for one visit."""

    tenant: str
    user: str
    route: str
    cost: int


def asked_for(visit: Visit) -> Asked:
    """The kind of traffic, the client, the first part of the path; a large download costs more."""
    last = visit.path.rpartition("/")[2].lower()
    ending = last.rpartition(".")[2] if "." in last else ""
    route = "/" + visit.path.lstrip("/").partition("/")[0][:_ROUTE_LENGTH]
    if ending in _DOWNLOADS:
        cost = 1 + min(visit.size_bytes // _COST_BYTES, _COST_MAX - 1)
        return Asked(DOWNLOADS, visit.client, route if "." not in route else "/", cost)
    if ending in _ASSETS:
        return Asked(ASSETS, visit.client, "/", 1)
    return Asked(FEEDS if any(word in visit.path for word in _FEEDS) else PAGES, visit.client, route, 1)


def first_policies() -> list[LimitPolicy]:
    """Of revision 1."""
    return [
        _policy("pl_pages_by_client", PAGES, ("tenant", "user"), "sliding_window", 6, window_ms=2_000, slots=4),
        _policy("pl_pages_by_route", PAGES, ("tenant", "route"), "token_bucket", 40, refill_rate=30),
        _policy("pl_feeds_by_client", FEEDS, ("tenant", "user"), "token_bucket", 5, refill_rate=1),
        _policy("pl_assets", ASSETS, ("tenant",), "token_bucket", 60, refill_rate=40, consistency="leased"),
        _policy(
            "pl_downloads",
            DOWNLOADS,
            ("tenant", "route"),
            "fixed_window",
            300,
            window_ms=86_400_000,
            consistency="leased",
        ),
    ]


def later_policies() -> list[LimitPolicy]:
    """Of revision 2: published half-way."""
    changed = {"pl_feeds_by_client": {"capacity": 2}, "pl_downloads": {"capacity": 450}}
    return [
        msgspec.structs.replace(policy, version=2, **changed[policy.policy_id])
        if policy.policy_id in changed
        else policy
        for policy in first_policies()
    ]


def _policy(
    policy_id: str, tenant: str, per: tuple[str, ...], algorithm: str, capacity: int, **other: Any
) -> LimitPolicy:
    fields = {
        "refill_rate": None,
        "refill_period_ms": 1_000,
        "window_ms": None,
        "slots": 1,
        "strict": False,
        "consistency": "exact",
        "failure_mode": "closed",
        "shadow": False,
        "audit": "full",
        "version": 1,
        **other,
    }
    fields |= {"policy_id": policy_id, "per": per, "algorithm": algorithm, "capacity": capacity}
    return msgspec.convert({**fields, "scope": Scope(tenant, "*", "*")}, LimitPolicy, from_attributes=True)
