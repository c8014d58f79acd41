"""The clock of a store against ours: what an answer proves."""

from __future__ import annotations

import pytest

from limiter.store.store_clock import surely_ahead_s


@pytest.mark.parametrize(
    ("store_s", "ahead_s"),
    [(100.0, 0.0), (101.5, 0.0), (102.0, 0.0), (97.0, 3.0), (105.0, -3.0)],
    ids=["same at the question", "slow, and right", "same at the answer", "we are ahead", "we are behind"],
)
def test_only_what_a_slow_answer_cannot_explain_is_a_difference(store_s: float, ahead_s: float) -> None:
    assert surely_ahead_s(100.0, 102.0, store_s) == ahead_s
