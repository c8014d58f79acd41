"""Waits that fail must say why, also on a machine whose patience is multiplied."""

from __future__ import annotations

import pytest

from tests import eventually as waiting
from tests.eventually import becomes, eventually, patient
from tests.gate import PROOF


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


def test_no_test_gives_itself_more_time_because_waits_are_patient(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_PATIENCE", 1_000.0)
    configured = float(request.config.getini("timeout"))
    assert configured == 120
    assert request.node.get_closest_marker("timeout") is None or PROOF
    assert patient(configured) <= configured * (1 if not PROOF else 5)


@pytest.mark.timeout(77)
def test_waits_end_before_the_timeout_that_a_test_is_marked_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_PATIENCE", 1_000.0)
    assert patient(77) <= (77 if not PROOF else 5 * 77)
