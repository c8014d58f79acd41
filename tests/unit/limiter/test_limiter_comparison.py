"""The comparison with other libraries: who is installed is measured, who is not is told how to be."""

from __future__ import annotations

import sys

from compose.proof.bench.limiter.comparison import (
    INSTALL,
    Contender,
    _library,
    _limits,
    _one_by_one,
    _results,
    _throttled,
    ratios,
)


def test_both_libraries_count_the_workload_in_process() -> None:
    """Each refuses past 1000 per 10 s on one key: what is timed is a decision, not a call that does nothing."""
    for made, is_allowed in ((_limits, bool), (_throttled, lambda answer: not answer.limited)):
        hit = made(None)
        allowed = [bool(is_allowed(hit("user1"))) for _ in range(2_050)]
        assert 1_000 <= sum(allowed) <= 2_000  # a window may end between
        assert not all(allowed)


def test_a_library_that_is_missing_says_what_to_type(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "limits", None)
    missing = _library(_limits, None, _one_by_one)
    assert missing is None
    measured = Contender(lambda numbers: [1.0 for _ in numbers])
    measured.turn([1, 2, 3], is_measured=True)
    parts = _results({"ours": measured, "limits": missing})
    assert parts["limits"] == INSTALL
    assert "make setup" in INSTALL
    assert ratios(parts, "ours", "p50_us") == {}


def test_a_first_turn_is_not_measured() -> None:
    one = Contender(lambda numbers: [float(n) for n in numbers])
    one.turn([9, 9], is_measured=False)
    one.turn([1, 2, 3], is_measured=True)
    assert one.result()["p999_us"] == 3.0
