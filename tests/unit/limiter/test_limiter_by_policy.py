"""Metrics by policy: added up from records of the ring; and the histogram of waits for the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from limiter.policy.policies import PolicySet
from limiter.spending.decision import Decision
from limiter.spending.ring import ALLOWED, ALSO, APPROXIMATE, DUPLICATE, RECORD_TYPE
from limiter.store.store_waits import BOUNDS_S, StoreWaits
from limiter.stream.by_policy import OTHERS, ByPolicy
from limiter.stream.decisions import Recorder
from schemas.limiter import limits
from tests.unit.limiter.test_limiter_policies import policy

if TYPE_CHECKING:
    from pathlib import Path

    from limiter.spending.ring import Records


def records(*found: tuple[int, int, int]) -> Records:
    """Row, flags and remaining of each."""
    taken = np.zeros(len(found), RECORD_TYPE)
    for at, (row, flags, remaining) in enumerate(found):
        taken[at] = (row, 1, flags, remaining, 0)
    return taken


def test_each_decision_counts_once_for_the_limit_that_governed() -> None:
    counted = ByPolicy()
    counted.use(PolicySet([policy("pl_a"), policy("pl_b", capacity=100, per=["tenant"])], 1).all_levels())
    counted.add_row("pl_a", 1)
    counted.add_row("pl_b", 1)
    slot = 7 << 8
    counted.count(records((0, ALLOWED, 9), (0, ALLOWED | APPROXIMATE | slot, 3), (0, ALLOWED, 2), (0, 0, 0)))
    counted.count(records((1, ALLOWED, 21), (1, ALLOWED, 20), (1, ALLOWED | ALSO, 0), (1, ALLOWED | DUPLICATE, 0)))
    assert list(counted.named()) == [
        ("pl_a", "allowed", 3),
        ("pl_a", "denied", 1),
        ("pl_a", "near_limit", 1),
        ("pl_b", "allowed", 2),
        ("pl_b", "denied", 0),
        ("pl_b", "near_limit", 1),
    ]


def test_totals_outlive_policies_and_rows_do_not() -> None:
    counted = ByPolicy()
    counted.use(PolicySet([policy("pl_a")], 1).all_levels())
    counted.add_row("pl_a", 1)
    counted.count(records((0, ALLOWED, 9)))
    counted.use(PolicySet([policy("pl_b"), policy("pl_c")], 2).all_levels())
    counted.forget()
    counted.add_row("pl_c", 1)
    counted.count(records((0, 0, 0)))
    assert [one for one in counted.named() if one[2]] == [("pl_a", "allowed", 1), ("pl_c", "denied", 1)]


def test_past_the_bound_policies_share_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LIMIT_METRIC_POLICIES_MAX", 2)
    counted = ByPolicy()
    counted.use(PolicySet([policy("pl_a"), policy("pl_b", per=["tenant"])], 1).all_levels())
    counted.add_row("pl_a", 1)
    counted.add_row("pl_b", 1)
    counted.count(records((0, ALLOWED, 9), (1, ALLOWED, 9), (1, 0, 0)))
    assert sorted(one for one in counted.named() if one[2]) == [
        (OTHERS, "allowed", 1),
        (OTHERS, "denied", 1),
        ("pl_a", "allowed", 1),
    ]


class Sink:
    """Takes every block."""

    under_way = lost = 0

    def send(self, *block: object) -> bool:
        return bool(block)


def test_a_recorder_counts_what_it_flushes(tmp_path: Path) -> None:
    recorder = Recorder("g", Sink(), tmp_path / "ring", records=1_024)  # type: ignore[arg-type]
    recorder.by_policy.use(PolicySet([policy("pl_a")], 1).all_levels())
    for remaining in (5, 1):
        recorder.record("t:u:/r", 1, Decision(True, remaining, 0, 0, "pl_a", 1))
    recorder.take()
    assert [count for *_, count in recorder.by_policy.named()] == [2, 0, 1]
    recorder.close()


def test_waits_are_a_histogram() -> None:
    waits = StoreWaits()
    for seconds in (0.000_05, 0.000_1, 0.002_1, 3.0):
        waits.took(seconds)
    found = dict(waits.cumulative())
    assert (found["0.0001"], found["0.002"], found["0.005"], found["1.0"], found["+Inf"]) == (2, 2, 3, 3, 4)
    assert len(found) == len(BOUNDS_S) + 1
    assert waits.total_s == pytest.approx(3.002_25)
