"""The dry run of policies: by the policies that decided nothing changes, by others exactly what they would decide."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest

from compose.cli.dry_run.history import Past
from compose.cli.dry_run.policies import UnusablePolicies, other_policies
from compose.cli.dry_run.rerun import Rerun, TooManyCounters
from limiter.policy.policies import PolicySet
from schemas.limiter import limits
from tests.worlds.limiter.counter_server import policy

if TYPE_CHECKING:
    from pathlib import Path

    from schemas.limiter.limit_policy import LimitPolicy

SECOND_US = 1_000_000
BEGIN_US = 1_700_000_000 * SECOND_US


def decided_by(found: list[LimitPolicy], requests: list[tuple[int, str, int]]) -> list[Past]:
    """What a window of whole seconds decides, computed by hand for one fixed window of each key."""
    used: dict[tuple[str, int], int] = {}
    (one,) = found
    past = []
    for at, key, cost in requests:
        window = at // ((one.window_ms or 0) * 1_000)
        fits = used.get((key, window), 0) + cost <= one.capacity
        if fits:
            used[key, window] = used.get((key, window), 0) + cost
        past.append(Past(at, key, cost, fits, one.policy_id))
    return past


def requests(count: int, seed: int) -> list[tuple[int, str, int]]:
    chance = random.Random(seed)
    times = sorted(BEGIN_US + chance.randrange(20 * SECOND_US) for _ in range(count))
    return [(at, f"t:u{chance.randrange(5)}:/r", chance.randrange(1, 4)) for at in times]


@pytest.mark.parametrize("seed", range(5))
def test_policies_in_force_decide_as_they_did(seed: int) -> None:
    now = policy(capacity=20, window_ms=2_000, consistency="exact")
    past = decided_by([now], requests(2_000, seed))
    rerun = Rerun(PolicySet([now], 1))
    rerun.take(past, BEGIN_US)
    found = rerun.result(10)
    assert (found["newly_denied"], found["newly_allowed"]) == (0, 0)
    assert found["still_allowed"] + found["still_denied"] == 2_000
    assert found["still_denied"] > 100


@pytest.mark.parametrize("seed", range(5))
def test_another_capacity_changes_exactly_what_it_would_have_decided(seed: int) -> None:
    """Beside the decisions that the other policy makes when it is computed by hand."""
    asked = requests(2_000, seed)
    now = policy(capacity=20, window_ms=2_000, consistency="exact")
    lower = policy(version=2, capacity=12, window_ms=2_000, consistency="exact")
    before, after = decided_by([now], asked), decided_by([lower], asked)
    rerun = Rerun(PolicySet([lower], 1))
    for at in range(0, len(before), 77):
        rerun.take(before[at : at + 77], BEGIN_US)
    found = rerun.result(3)
    pairs = [(old.allowed, new.allowed) for old, new in zip(before, after, strict=True)]
    assert found["newly_denied"] == pairs.count((True, False)) > 0
    assert found["newly_allowed"] == pairs.count((False, True))
    cost = sum(old.cost for old, new in zip(before, after, strict=True) if old.allowed and not new.allowed)
    assert found["cost"]["newly_denied"] == cost
    assert found["policies"][0]["newly_denied"] == found["newly_denied"]
    assert found["keys"]["newly_denied"][0]["decisions"] >= found["keys"]["newly_denied"][1]["decisions"]


def test_a_quota_of_a_calendar_is_counted_by_its_zone() -> None:
    """Four hours of one day in India, which are of two days in UTC."""
    midnight = 1_800_000_000 - 1_800_000_000 % 86_400
    past = [Past((midnight + hour * 3_600) * SECOND_US, "t:u:/r", 1, True, "pl_a") for hour in (-2, -1, 1, 2)]

    def refused(time_zone: str) -> int:
        rerun = Rerun(PolicySet([policy(capacity=2, calendar={"unit": "day", "time_zone": time_zone})], 1))
        rerun.take(past, 0)
        return int(rerun.result(1)["newly_denied"])

    assert (refused("Asia/Kolkata"), refused("UTC")) == (2, 0)


def test_levels_are_charged_all_or_none_and_the_warm_up_is_not_counted() -> None:
    narrow = policy("pl_narrow", capacity=1, window_ms=1_000, consistency="exact", scope={"tenant": "t", "route": "/n"})
    wide = policy("pl_wide", capacity=3, window_ms=1_000, consistency="exact", per=["tenant"])
    at = BEGIN_US
    past = [Past(at + n, "t:u:/n", 1, True, "pl_wide") for n in range(3)] + [
        Past(at + 9, "t:u:/w", 1, True, "pl_wide")
    ] * 3
    rerun = Rerun(PolicySet([narrow, wide], 1))
    rerun.take(past, at + 2)
    found = rerun.result(5)
    assert found["still_allowed"] + found["newly_denied"] == 4  # the first two filled the counters only
    assert {row["policy_id"]: row["newly_denied"] for row in found["policies"]} == {"pl_narrow": 1, "pl_wide": 1}


def test_memory_is_bounded_and_idle_counters_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LIMIT_DRY_RUN_KEYS_MAX", 100)
    one = policy(capacity=2, window_ms=1_000, consistency="exact")
    rerun = Rerun(PolicySet([one], 1))
    for second in range(10):
        at = BEGIN_US + 2 * second * SECOND_US
        rerun.take([Past(at + n, f"t:u{second}-{n}:/r", 1, True, "pl_a") for n in range(90)], BEGIN_US)
        assert rerun.counters <= 100
    assert rerun.decisions["still_allowed"] == 900
    with pytest.raises(TooManyCounters, match="shorter time"):
        rerun.take([Past(BEGIN_US + 40 * SECOND_US, f"t:v{n}:/r", 1, True, "pl_a") for n in range(150)], BEGIN_US)


def test_a_file_replaces_adds_and_takes_away(tmp_path: Path) -> None:
    one, two = policy("pl_one"), policy("pl_two", scope={"tenant": "t"})
    file = tmp_path / "policies.json"
    terms = {
        "algorithm": "fixed_window",
        "capacity": 7,
        "window_ms": 1_000,
        "scope": {"tenant": "t", "user": "*", "route": "/x"},
    }
    file.write_text(json.dumps({"data": [terms | {"policy_id": "pl_one", "object": "policy", "version": 1}, terms]}))
    found = other_policies([one, two], file, ["pl_two"])
    assert {level.id_: (level.version, level.policy.capacity) for level in found.all_levels()} == {
        "pl_one": (2, 7),
        "new_2": (1, 7),
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no json", "cannot be read"),
        ("[]", "must hold a list"),
        ("[7]", "policy 1 is no object"),
        ('[{"scope": {}}]', "policy 1 could not be published"),
    ],
)
def test_a_file_that_says_nothing_usable_is_refused(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "policies.json"
    file.write_text(text)
    with pytest.raises(UnusablePolicies, match=says):
        other_policies([policy()], file, [])
    with pytest.raises(UnusablePolicies, match="pl_gone is not in force"):
        other_policies([policy()], None, ["pl_gone"])
