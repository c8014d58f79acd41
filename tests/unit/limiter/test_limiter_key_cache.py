"""What maintenance costs, counted in what it looks at: keys that hold nothing cost nothing, void ones go bit by bit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from limiter.decide.key_cache import KeyCache
from limiter.policy.policies import PolicySet
from limiter.store.lease_clock import lease_clock_ns
from limiter.stream.decisions import Recorder
from schemas.limiter import limits
from tests.worlds.limiter.counter_server import Blocks, policy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[KeyCache]:
    recorder = Recorder("g", Blocks(), tmp_path / "ring", records=1_024)
    found = KeyCache(recorder)
    found.use(PolicySet([policy()], 1))
    yield found
    recorder.close()


def asked(cache: KeyCache, count: int) -> list[Any]:
    return [cache.key(("t", f"u{n}", "/r")).buckets[0] for n in range(count)]


def test_only_counters_with_a_lease_are_tended(cache: KeyCache) -> None:
    buckets = asked(cache, 1_000)
    assert cache.active == set()
    buckets[7].begin_lease(b"l", 10, lease_clock_ns() + 10**9, 0)
    assert cache.active == {buckets[7]}
    buckets[7].end_lease()
    assert cache.active == {buckets[7]}  # it has one to settle


@pytest.mark.parametrize("full", ["keys", "published"])
def test_void_keys_go_bit_by_bit_and_leases_stay(cache: KeyCache, monkeypatch: pytest.MonkeyPatch, full: str) -> None:
    monkeypatch.setattr(limits, "LIMIT_KEYS_MAX", 1_000)
    monkeypatch.setattr(limits, "LIMIT_KEYS_LET_GO", 100)
    held = asked(cache, 1_000)[3]
    held.begin_lease(b"l", 10, lease_clock_ns() + 10**9, 0)
    if full == "keys":
        cache.key(("t", "one too many", "/r"))
        assert len(cache.keys) == 1
        assert set(cache.buckets.values()) == {held, cache.key(("t", "one too many", "/r")).buckets[0]}
    else:
        cache.use(PolicySet([policy()], 2))
        assert len(cache.keys) == 0
    assert cache.key(("t", "u3", "/r")).buckets == (held,)
    went = []
    while gone := cache.let_go():
        went.append(gone)
    assert max(went) == 100
    assert sum(went) >= 1_000


def test_a_counter_has_the_level_of_the_newest_snapshot(cache: KeyCache) -> None:
    before = asked(cache, 1)[0]
    newer = PolicySet([policy()], 2)
    cache.use(newer)
    after = asked(cache, 1)[0]
    assert after is before
    assert after.level is newer.all_levels()[0]


def test_a_snapshot_is_computed_beside_the_loop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its signature and its policies: the loop that decides only takes what is ready."""
    import threading  # noqa: PLC0415 - of this test alone

    from limiter.policy import follower  # noqa: PLC0415

    threads: list[int] = []

    def made(*_: object) -> None:
        threads.append(threading.get_ident())
        raise follower.SnapshotRefused("enough")

    monkeypatch.setattr(follower, "verified", made)

    class Published:
        async def newer(self, _known: str, _wait_s: int) -> tuple[str, bytes]:
            return "", b"{}"

    found = follower.SnapshotFollower(Published(), dict, lambda _: None, tmp_path / "r")
    asyncio.run(found._round())
    assert (len(threads), found.refused) == (1, 1)
    assert threads[0] != threading.get_ident()
