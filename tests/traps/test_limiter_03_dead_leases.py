"""A gateway is stopped past the end of its lease, and goes on: nothing of the dead lease is spent.

Trap 3 of the limiter: the store has charged the lease whole and given the rest to others, and the sleeper spends it too.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

from limiter.spending.buckets import Bucket
from schemas.limiter import limits
from tests.worlds.limiter.counter_server import CounterServer, limiter, policy
from tests.worlds.limiter.stopped_gateway import CAPACITY, LEFT_MIN, PATIENT_S, YEAR_MS
from tests.worlds.limiter.store_proxy import StoreProxy

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.servers
LIFE_MS = 200
ROOT = Path(__file__).resolve().parents[2]
EXACT = policy(capacity=CAPACITY, window_ms=YEAR_MS, consistency="exact")  # the same counter, without leases


@pytest.fixture
def server(tmp_path: Path) -> Iterator[CounterServer]:
    found = CounterServer(tmp_path / "valkey")
    yield found
    found.close()


@pytest.fixture
def sleeper(server: CounterServer, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.worlds.limiter.stopped_gateway", server.url, str(tmp_path)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def said(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    out: IO[bytes] | None = process.stdout
    assert out is not None
    found: dict[str, Any] = json.loads(out.readline())
    return found


async def spent_by_others(url: str, folder: Path) -> int:
    """Everything that can be had, until the lease of the sleeper is charged and nothing is left."""
    allowed, used = 0, 0
    async with limiter(url, folder, EXACT, name="others", timeout_s=PATIENT_S) as gateway, asyncio.timeout(PATIENT_S):
        while used < CAPACITY:
            decided = await asyncio.gather(*(gateway.check("t", "u", "/r") for _ in range(100)))
            assert not any(d.degraded for d in decided)
            allowed += sum(d.allowed for d in decided)
            (bucket,) = gateway._buckets.values()
            counted = await gateway._store.peek(bucket)
            used = counted.used
            await asyncio.sleep(0.02)
    assert counted.reserved == 0
    return allowed


def test_a_sleeper_spends_nothing_of_its_dead_lease(
    server: CounterServer, sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    before = said(sleeper)
    assert before["left"] >= LEFT_MIN
    _, status = os.waitpid(sleeper.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    others = asyncio.run(spent_by_others(server.url, tmp_path))
    assert before["allowed"] + before["granted"] - before["left"] + others <= CAPACITY
    os.kill(sleeper.pid, signal.SIGCONT)
    assert said(sleeper) == {"allowed": 0, "degraded": 0}


def test_a_lease_whose_grant_came_late_is_not_spent(
    server: CounterServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs from before it was asked for: an answer that is late by its life brings nothing to spend."""
    monkeypatch.setattr(limits, "LIMIT_LEASE_MS", LIFE_MS)
    monkeypatch.setattr(Bucket, "wanted", lambda *_: 8)  # demand that deserves a lease, however slow this machine is
    leased = policy(capacity=CAPACITY, window_ms=YEAR_MS, failure_mode="closed")

    async def test() -> None:
        proxy = StoreProxy(server.url)
        async with (
            proxy.url() as url,
            limiter(url, tmp_path, leased, timeout_s=PATIENT_S) as gateway,
            asyncio.timeout(PATIENT_S),
        ):
            assert (await gateway.check("t", "u", "/r")).allowed
            (bucket,) = gateway._buckets.values()
            bucket.end_lease()
            await gateway.maintain()  # nothing is left to be told before the next question
            proxy.delivering.clear()
            asked = asyncio.create_task(gateway.check("t", "u", "/r"))
            while not proxy.waiting:  # noqa: ASYNC110 - of the store
                await asyncio.sleep(0.02)
            granted_at = time.monotonic()
            while time.monotonic() < granted_at + LIFE_MS / 1_000:  # noqa: ASYNC110 - of the lease
                await asyncio.sleep(0.02)
            proxy.delivering.set()
            assert (await asked).allowed
            assert bucket.granted > 0  # it did bring a lease
            assert gateway.check_now("t", "u", "/r", 1, None) is None

    asyncio.run(test())
