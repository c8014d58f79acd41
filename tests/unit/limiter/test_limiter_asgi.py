"""What the fields of an answer say of a policy and a decision, as structured fields."""

from __future__ import annotations

from typing import Any

import pytest

from ingress.http import quotas
from limiter.edge.asgi import fields, retry_after_s
from limiter.spending.decision import Decision
from schemas.limiter.limit_terms import CAPACITY_MAX
from tests.each import each
from tests.worlds.limiter.counter_server import policy

BUCKET = {"algorithm": "token_bucket", "window_ms": None}


def decided(**changes: Any) -> Decision:
    """Allowed, with five left for 1.2 s, changed."""
    return Decision(
        allowed=True, remaining=5, reset_ms=1_200, retry_after_ms=0, policy_id="pl_a", policy_version=1
    )._replace(**changes)


@each(
    ("changes", "quota"),
    [
        ({"capacity": 100, "window_ms": 60_000}, "q=100;w=60"),
        ({"algorithm": "sliding_window", "capacity": 7, "window_ms": 1_500, "slots": 1}, "q=7;w=2"),
        ({"capacity": 1, "window_ms": 100}, "q=1;w=1"),
        ({"capacity": 9, "calendar": {"unit": "month", "time_zone": "UTC"}}, "q=9;w=2678400"),
        (BUCKET | {"capacity": 10, "refill_rate": 1, "refill_period_ms": 1_000}, "q=10;w=10"),
        (BUCKET | {"capacity": 10, "refill_rate": 3, "refill_period_ms": 1_000}, "q=10;w=4"),
        (BUCKET | {"capacity": 10, "refill_rate": 50, "refill_period_ms": 1_000}, "q=10;w=1"),
        (
            {"algorithm": "concurrency", "capacity": 3, "window_ms": 60_000, "consistency": "exact"},
            'q=3;qu="concurrent-requests"',
        ),
    ],
)
def test_a_policy_as_a_field(changes: dict[str, Any], quota: str) -> None:
    assert fields(policy(**changes), decided())["RateLimit-Policy"] == f'"pl_a";{quota}'


def test_integers_stay_within_those_of_structured_fields() -> None:
    largest = policy(capacity=CAPACITY_MAX, window_ms=1)
    found = fields(largest, decided(remaining=CAPACITY_MAX))
    assert found == {"RateLimit-Policy": f'"pl_a";q={10**15 - 1};w=1', "RateLimit": f'"pl_a";r={10**15 - 1};t=2'}


@pytest.mark.parametrize(("wait_ms", "wait_s"), [(1, 1), (999, 1), (1_000, 1), (1_001, 2), (0, 1), (-1, None)])
def test_a_wait_is_never_told_too_short(wait_ms: int, wait_s: int | None) -> None:
    """And no refusal tells another time in one field than in the other."""
    refused = decided(allowed=False, remaining=0, retry_after_ms=wait_ms)
    assert retry_after_s(refused) == wait_s
    assert fields(policy(), refused)["RateLimit"] == f'"pl_a";r=0;t={2 if wait_s is None else wait_s}'
    told = quotas.refusal(refused).headers.get("retry-after")
    assert told == (None if wait_s is None else str(wait_s))


def test_an_allowed_request_waits_for_nothing() -> None:
    assert retry_after_s(decided()) is None
