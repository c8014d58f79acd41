"""Waits that fail must say why, also on a machine whose patience is multiplied."""

from __future__ import annotations

import pytest

from tests import eventually as waiting
from tests.eventually import becomes, eventually, patient, timeout_of_test


def test_a_failure_shows_what_was_read_last() -> None:
    with pytest.raises(AssertionError, match=r"no gaps not met within .*\{'ledger': \['tx_1'\]\}, and not \{\}"):
        becomes(lambda: {"ledger": ["tx_1"]}, {}, 0, what="no gaps")


def test_a_failure_shows_the_last_assertion() -> None:
    def never() -> bool:
        raise AssertionError("two are missing")

    with pytest.raises(AssertionError, match="last: two are missing"):
        eventually(never, 0)


def test_what_comes_true_is_returned_and_other_errors_are_not_waited_for() -> None:
    answers = iter([None, 0, "there"])
    assert eventually(lambda: next(answers)) == "there"
    numbers = iter([1, 2, 3])
    becomes(lambda: next(numbers), 3)
    with pytest.raises(ZeroDivisionError):
        eventually(lambda: 1 // 0)


def test_a_wait_ends_before_its_test_is_timed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_test_ends_at", 0.0)
    assert patient(1_000_000) == 0
    with pytest.raises(AssertionError, match="last: 7, and not 8"):
        becomes(lambda: 7, 8, 1_000_000)


@pytest.mark.parametrize(
    ("marked_s", "patience", "limit_s"), [(180, 1, 180), (180, 4, 720), (300, 4, 900), (1_200, 4, 1_200), (60, 0.5, 60)]
)
def test_the_limit_of_a_test_grows_with_the_patience_and_is_bounded(
    marked_s: float, patience: float, limit_s: float
) -> None:
    assert timeout_of_test(marked_s, patience) == limit_s


@pytest.mark.timeout(77)
def test_pytest_was_told_that_limit(request: pytest.FixtureRequest) -> None:
    marker = request.node.get_closest_marker("timeout")
    assert marker.args == (timeout_of_test(77),)
