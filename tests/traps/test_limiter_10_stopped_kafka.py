"""Kafka stands still at full load: no decision waits for it, and the totals of leases are exact when it is back.

Trap 10 of the limiter: emission blocks decisions, or what was decided meanwhile is in no account.
"""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.eventually import eventually, patient
from tests.freezing import freeze
from tests.servers import World, own_servers, process_id, without
from tests.worlds.limiter.counter_server import policy
from tests.worlds.limiter.lease_world import PATIENT_S, WITHIN_S, Settled, lease_stream, reporting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from limiter import Limiter

pytestmark = pytest.mark.servers
STOPPED_S = 3.0  # longer than a gateway takes its silence for slowness
CAPACITY = 1_000_000


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Servers of its own: its Kafka stands still for a while."""
    with own_servers(tmp_path_factory.mktemp("kafka"), **without("clickhouse")) as settings:
        yield World(settings)


@contextmanager
def stopped_kafka(stack: World) -> Iterator[None]:
    pid = process_id(stack.settings, "kafka")
    freeze(pid)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def load(gateway: Limiter, seconds: float, leased_min: int = 0) -> tuple[int, int]:
    """Decisions, and those out of leases; for longer where there are too few of these yet."""
    total = leased = 0
    until = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < until or leased < leased_min:
        for decided in await asyncio.gather(*(gateway.check("t", "u", "/r") for _ in range(20))):
            assert decided.allowed
            assert not decided.degraded
            total += 1
            leased += decided.approximate
        await asyncio.sleep(0.002)
    return total, leased


def test_decisions_go_on_and_lease_totals_are_exact_afterwards(stack: World, tmp_path: Path) -> None:
    name = f"k{uuid.uuid4().hex[:8]}"
    settled = Settled(stack, name)

    async def test() -> int:
        terms = policy(f"pl_{name}", capacity=CAPACITY)
        async with reporting(stack, tmp_path, terms, name) as gateway, asyncio.timeout(patient(PATIENT_S)):
            before = await load(gateway, 1.0, leased_min=1)
            with stopped_kafka(stack):
                during = await load(gateway, STOPPED_S)
            after = await load(gateway, 1.0, leased_min=1)  # Kafka has to find itself again
            assert during[0] > during[1]  # the store was asked for what could not be reported
            await gateway.close()
            gateway._recorder.flush()
            return before[1] + during[1] + after[1]

    with lease_stream(stack):
        leased = asyncio.run(test())
        eventually(lambda: settled.sums()[2] == leased and settled.open() == 0, WITHIN_S, what="exact totals")
    _, granted, reported, assumed, released = settled.sums()
    assert (assumed, granted) == (0, reported + released)
    assert settled.reasons() <= {"returned", "closed"}
    assert settled.violations() == []
