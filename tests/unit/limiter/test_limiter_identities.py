"""What was consumed under which identity: of the key that consumed it, for its time, whoever else uses the same text."""

from __future__ import annotations

import pytest

from limiter.decide.identities import SHARDS, Identities
from limiter.spending.buckets import Bucket
from limiter.spending.decision import Decision
from limiter.spending.key_state import KeyState
from schemas.limiter import limits
from tests.worlds.limiter.counter_server import policies, policy

LIFE_NS = 1_000
ANSWER = Decision(True, 9, 0, 0, "pl_a", 3)
(LEVEL,) = policies(policy()).all_levels()


def key(name: str) -> KeyState:
    return KeyState(name, (Bucket(LEVEL, name),), 0)


A, B, C = key("a"), key("b"), key("c")


def test_an_identity_is_of_the_key_that_used_it() -> None:
    found = Identities(LIFE_NS)
    found.keep(A, "r", 1, None)
    assert found.find(A, "r") == (1, None)
    assert found.find(key("a"), "r") == (1, None)  # the same key under a newer snapshot
    assert found.find(B, "r") is None


def test_keys_that_use_the_same_identity_do_not_displace_each_other() -> None:
    found = Identities(LIFE_NS)
    found.keep(A, "r", 1, None)
    found.keep(B, "r", 2, ANSWER)
    found.keep(C, "r", 3, None)
    assert [found.find(k, "r") for k in (A, B, C)] == [(1, None), (2, ANSWER), (3, None)]


def test_an_identity_lasts_for_its_time_whatever_the_turn() -> None:
    found = Identities(LIFE_NS)
    now_ns = max(found._since_ns)
    found.keep(A, "r", 1, None)
    found.keep(B, "r", 1, ANSWER)
    found.turn(now_ns := now_ns + LIFE_NS + 1)
    assert [found.find(k, "r") for k in (A, B)] == [(1, None), (1, ANSWER)]
    found.turn(now_ns + LIFE_NS + 1)
    assert [found.find(k, "r") for k in (A, B)] == [None, None]


def test_a_shard_that_is_full_turns_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LIMIT_IDENTITIES_MAX", SHARDS * 8)
    found = Identities(LIFE_NS)
    now_ns = min(found._since_ns)
    names = iter(f"r{n}" for n in range(SHARDS * 1_000))
    while max(map(found.spent.young, range(SHARDS))) < 8:
        found.keep(A, next(names), 1, None)
    before = list(map(found.spent.young, range(SHARDS)))
    found.turn(now_ns)
    assert list(map(found.spent.young, range(SHARDS))) == [n if n < 8 else 0 for n in before]
    assert all(found.find(A, f"r{n}") for n in range(sum(before)))


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
    identities.keep(key("k"), "r", 1, ANSWER)
    assert not identities.doubtful
    assert identities.find(key("k"), "r") == (1, ANSWER)


def test_doubts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LIMIT_DOUBTS_MAX", 3)
    identities = Identities(LIFE_NS)
    for n in range(5):
        identities.doubt(("k", str(n)), n)
    assert set(identities.doubtful) == {("k", "2"), ("k", "3"), ("k", "4")}
