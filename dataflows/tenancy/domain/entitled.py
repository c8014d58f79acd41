"""Limits that a tenant's entitlements set on what is counted in the commit: hard ones refuse, soft ones warn. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from schemas.records import Denial
from schemas.tenancy.entitlements import COUNTED, shown


class Limit(NamedTuple):
    """One feature that bounds how many resources are there at once."""

    feature: str
    limit: int
    soft: bool


def limits_of(texts: Mapping[str, str]) -> list[Limit]:
    """Those of all that was said of a tenant, by name; what has no limit is none."""
    said = {feature: one for feature, one in shown(texts).items() if one["kind"] == "limit"}
    return [Limit(name, one["limit"], one["soft"]) for name, one in said.items() if one["limit"] is not None]


def refusal(limits: Sequence[Limit], used: int) -> Denial | None:
    """Why there may not be one more, or None. Not stored, as of any quota: the same identity may ask again."""
    reached = next((one for one in limits if not one.soft and used >= one.limit), None)
    if reached is None:
        return None
    return Denial(
        "quota_exceeded",
        "The tenant has as many resources as it is entitled to: delete one, or have that changed.",
        told(reached, used),
    )


def warnings(limits: Sequence[Limit], used: int) -> list[dict[str, Any]]:
    """What is told of soft limits that ``used``, with what was just made, goes beyond."""
    return [told(one, used) for one in limits if one.soft and used > one.limit]


def told(one: Limit, used: int) -> dict[str, Any]:
    """The numbers of a limit, as answers tell them."""
    return {"feature": one.feature, "dimension": COUNTED, "limit": one.limit, "used": used}
