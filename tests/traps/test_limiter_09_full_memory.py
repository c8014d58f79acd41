"""The memory of the store is full and it evicts nothing: every answer says so and is what its policy wants.

Trap 9 of the limiter: counters that vanish let everything through, silently; keys that never end fill the memory.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import redis

from tests.eventually import becomes
from tests.worlds.limiter.counter_server import CounterServer, answer_of_store, limiter, policy, server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.servers
__all__ = ["server"]  # the fixtures of this module
PATIENT_S = 60
CAPACITY = 10
KEYS = 20


FILLING = 20
FILLING_BYTES = 100_000


@contextmanager
def full(server: CounterServer) -> Iterator[redis.Redis]:
    """Less memory than is used, by more than buffers of clients give back later; and a value that has no place shows it."""
    with redis.Redis.from_url(server.url) as connection:
        becomes(lambda: connection.info("memory")["lazyfree_pending_objects"], 0, PATIENT_S)  # what was flushed before
        for n in range(FILLING):
            connection.set(f"filling:{n}", b"x" * FILLING_BYTES, ex=600)
        memory = connection.info("memory")
        # what waits to be appended to the log is used and not counted: all of the filling, while the disk is slow
        counted = memory["used_memory"] - memory["mem_not_counted_for_evict"]
        connection.config_set("maxmemory", counted - FILLING * FILLING_BYTES // 2)
        try:
            with pytest.raises(redis.exceptions.OutOfMemoryError):
                connection.set("one more", b"x")
            yield connection
        finally:
            connection.config_set("maxmemory", 0)


@pytest.mark.parametrize("rules", [[], ["-function", "-fcall"]], ids=["functions", "script"])
@pytest.mark.parametrize(("mode", "allowed"), [("open", CAPACITY), ("closed", 0), ("stale", 0)])
def test_a_full_store_degrades_by_the_mode_and_loses_nothing(
    server: CounterServer, tmp_path: Path, mode: str, allowed: int, rules: list[str]
) -> None:
    exact = policy(capacity=CAPACITY, consistency="exact", failure_mode=mode)

    async def test() -> None:
        async with limiter(server.url_of("some", *rules), tmp_path, exact, timeout_s=PATIENT_S) as gateway:
            assert [(await gateway.check("t", f"u{n}", "/r", 3)).degraded for n in range(KEYS)] == [False] * KEYS
            buckets = list(gateway._buckets.values())
            with full(server) as connection:
                held = connection.dbsize()
                for user in ("u0", "new"):
                    decided = [await gateway.check("t", user, "/r") for _ in range(2 * CAPACITY)]
                    assert all(d.degraded for d in decided)
                    assert sum(d.allowed for d in decided) == allowed
                assert connection.dbsize() == held
            await answer_of_store(gateway, "probe", 0)
            assert [(await gateway._store.peek(bucket)).used for bucket in buckets] == [3] * KEYS

    with redis.Redis.from_url(server.url) as connection:
        connection.flushall()
    asyncio.run(test())
