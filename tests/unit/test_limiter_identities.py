"""Identities that the store did not answer about are remembered for as long as it remembers them, and bounded."""

from __future__ import annotations

import pytest

from limiter.decision import UNLIMITED
from limiter.identities import Identities
from schemas import limits

LIFE_NS = 1_000


def test_a_doubt_lasts_as_long_as_the_store_may_know_better() -> None:
    identities = Identities(LIFE_NS)
    identities.doubt(("k", "old"), 0)
    identities.doubt(("k", "new"), 1)
    identities.doubt(("k", "old"), 2)  # asked again, and again no answer
    identities.turn(LIFE_NS + 1)
    assert set(identities.doubtful) == {("k", "new"), ("k", "old")}
    identities.turn(LIFE_NS + 2)
    assert set(identities.doubtful) == {("k", "old")}


def test_an_answer_ends_the_doubt() -> None:
    identities = Identities(LIFE_NS)
    identities.doubt(("k", "r"), 0)
    identities.keep(("k", "r"), 1, UNLIMITED)
    assert not identities.doubtful
    assert identities.find(("k", "r")) == (1, UNLIMITED)


def test_doubts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LIMIT_DOUBTS_MAX", 3)
    identities = Identities(LIFE_NS)
    for n in range(5):
        identities.doubt(("k", str(n)), n)
    assert set(identities.doubtful) == {("k", "2"), ("k", "3"), ("k", "4")}
