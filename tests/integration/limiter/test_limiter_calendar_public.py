"""A month's quota as outsiders meet it: published over HTTP, in the signed snapshot, counted for Envoy, told in usage."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import quote

import pytest

from schemas.calendar_windows import Calendar, window_at
from schemas.limiter import limits
from tests.eventually import becomes, eventually
from tests.worlds.limiter.limiter_public import OK, Envoy, envoy
from tests.worlds.public_system import public

__all__ = ["envoy", "public"]  # the fixtures of this module
pytestmark = pytest.mark.servers


def test_a_months_quota_is_published_counted_and_kept(envoy: Envoy) -> None:
    """By the boundaries of its signed snapshot; and what was used is used under a window of another kind."""
    calendar = Calendar("month", "Asia/Kolkata")
    asked = {"unit": calendar.unit, "time_zone": calendar.time_zone}
    published = envoy.in_force(window_ms=None, calendar=asked)
    shown = envoy.operator.http.get(f"/v1/policies/{published['policy_id']}").json()
    for resource in (published, shown, *shown["versions"]):
        assert (resource["calendar"], resource["window_ms"]) == (asked, None)
    signed = json.loads(envoy.operator.http.get("/v1/policy_snapshots/newest").json()["snapshot"])
    _, end_s = window_at(calendar, int(time.time()))
    assert [end_s in found["boundaries"] for found in signed["calendars"] if found["calendar"] == asked] == [True]
    assert envoy.allowed(14) == 10

    def usage() -> dict[str, Any]:
        view: dict[str, Any] = envoy.operator.http.get(f"/v1/usage/{quote(envoy.tenant + ':u:/r', safe='')}").json()
        return view

    def looked() -> tuple[float, dict[str, Any] | None, float]:
        before_s = time.time()
        return before_s, usage()["live"], time.time()

    before_s, live, after_s = eventually(lambda: next((found for found in [looked()] if found[1]), None))
    assert live is not None
    assert (live["used"], live["remaining"]) == (10, 0)
    assert before_s <= end_s - live["reset_ms"] / 1_000 + 0.001
    assert end_s - live["reset_ms"] / 1_000 <= after_s
    next_version = {"policy_id": published["policy_id"], "expected_version": 1}
    assert envoy.publish(**next_version, capacity=12, window_ms=limits.LIMIT_WINDOW_MS_MAX).status_code == 201
    becomes(envoy.decided, OK, 60)
    assert envoy.allowed(3) == 1

    def total() -> tuple[int, int] | None:
        view = usage()
        return view["live"] and (view["policy_version"], view["live"]["used"])

    becomes(total, (2, 12))
