"""What was consumed under which identity: of the key that consumed it, for its time, whoever else uses the same text."""

from __future__ import annotations

import pytest

from limiter.buckets import Bucket, KeyState
from limiter.decision import Decision
from limiter.identities import SHARDS, Identities
from schemas import limits
from tests.counter_server import policies, policy

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


@pytest.mark.parametrize("turns", [0, 1])
def test_the_second_key_is_remembered_as_long_as_if_it_were_the_first(turns: int) -> None:
    """The first one's entry leads to it, so it stays as well."""
    found = Identities(LIFE_NS)
    now_ns = max(found._since_ns)
    found.keep(A, "r", 1, None)
    found.turn(now_ns := now_ns + LIFE_NS + 1)
    found.keep(B, "r", 1, None)
    for _ in range(turns):
        found.turn(now_ns := now_ns + LIFE_NS + 1)
    assert found.find(B, "r") == (1, None)
    found.turn(now_ns + 2 * LIFE_NS)
    found.turn(now_ns + 4 * LIFE_NS)
    assert found.find(B, "r") is None


def test_a_table_that_is_full_turns_alone() -> None:
    found = Identities(LIFE_NS)
    now_ns = min(found._since_ns)
    each = limits.LIMIT_IDENTITIES_MAX // SHARDS
    crowded = [name for name in (f"r{n}" for n in range(SHARDS * each)) if hash(name) % SHARDS == 0][: each // 2]
    found.tables[0][0].update(dict.fromkeys([f"x{n}" for n in range(each)], A))
    other = next(name for name in (f"o{n}" for n in range(10_000)) if hash(name) % SHARDS == 1)
    found.keep(A, other, 1, None)
    found.turn(now_ns)
    found.keep(A, crowded[0], 1, None)
    assert len(found.tables[0][0]) == 1
    assert len(found.tables[0][1]) == each
    assert other in found.tables[1][0]


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
