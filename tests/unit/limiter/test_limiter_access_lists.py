"""Block lists and allow lists: what is decided before any counter is touched."""

from __future__ import annotations

import pytest

from limiter.decide.access_lists import verdict
from limiter.edge.asgi import fields
from schemas.limiter.limit_policy import LimitPolicy, rendered
from schemas.limiter.limit_terms import terms
from schemas.limiter.operations import OPERATIONS
from tests.each import each
from tests.worlds.limiter.counter_server import listed, policies, policy

PARTS = {"tenant": "t", "user": "u", "route": "/r"}
SCOPE = {"tenant": "*", "user": "*", "route": "*"}


def decided(*found: LimitPolicy) -> tuple[str | bool | None, list[str]]:
    """What is decided, by which policy; and the policies that must be counted."""
    said, counted = verdict(policies(*found).levels(PARTS))
    return None if said is None else f"{said.allowed} {said.policy_id}", [level.id_ for level in counted]


def test_without_lists_all_is_counted() -> None:
    assert decided() == (None, [])
    assert decided(policy("pl_a"), policy("pl_b", per=["tenant"])) == (None, ["pl_a", "pl_b"])


def test_a_denial_of_one_level_outweighs_all_others() -> None:
    blocked = listed("deny", per=["tenant"])
    assert decided(blocked, policy("pl_a")) == ("False pl_list", [])
    assert decided(blocked, listed("unlimited", "pl_free")) == ("False pl_list", [])


def test_the_most_specific_policy_of_a_level_governs() -> None:
    free = listed("unlimited", "pl_free", scope={"tenant": "t"})
    assert decided(listed("deny"), policy("pl_a", scope={"tenant": "t"})) == (None, ["pl_a"])
    assert decided(policy("pl_a"), free) == ("True pl_free", [])
    assert decided(listed("deny"), free) == ("True pl_free", [])


def test_unlimited_takes_its_own_level_away_only() -> None:
    free = listed("unlimited", scope={"tenant": "t"})
    assert decided(policy("pl_a"), free, policy("pl_b", per=["tenant"])) == (None, ["pl_b"])


def test_a_shadow_list_decides_nothing() -> None:
    assert decided(listed("deny", shadow=True), policy("pl_a")) == (None, ["pl_a"])
    assert decided(listed("deny", shadow=True)) == (None, [])


@each("algorithm", ["deny", "unlimited"])
@each("change", [{"capacity": 1}, {"capacity": 0}, {"window_ms": 1_000}, {"refill_rate": 1}])
def test_a_list_has_no_quota(algorithm: str, change: dict[str, int]) -> None:
    _, wrong = OPERATIONS["publish_policy"].normalize({"scope": SCOPE, "algorithm": algorithm} | change)
    assert [row["field"] for row in wrong] == [f"payload.{next(iter(change))}"]


@pytest.mark.parametrize("capacity", [0, None])
def test_whoever_counts_must_say_how_much(capacity: int | None) -> None:
    """Zero is refused, and the refusal says what is meant by it."""
    payload = {"scope": SCOPE, "algorithm": "fixed_window", "window_ms": 1_000, "capacity": capacity}
    _, (wrong,) = OPERATIONS["publish_policy"].normalize(payload)
    assert wrong["field"] == "payload.capacity"
    assert ("deny" in wrong["reason"]) == (capacity == 0)


def test_the_store_could_not_count_a_list_by_mistake() -> None:
    computed = terms(listed("deny"))
    assert computed is not None
    assert computed.algorithm < 0  # "wrong" to the script


def test_a_list_shows_no_capacity_and_no_field() -> None:
    blocked = listed("deny")
    assert rendered(blocked)["capacity"] is None
    said, _ = verdict(policies(blocked).levels(PARTS))
    assert said is not None
    assert (said.allowed, said.retry_after_ms) == (False, -1)
    assert fields(blocked, said) == {}
