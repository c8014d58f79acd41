"""Leases that nobody ended are settled from the stream, on real servers: never less than was spent, and only once."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

import pytest

from limiter.lease_book import unreported_max
from schemas import limits
from tests.counter_server import policy
from tests.eventually import becomes, eventually
from tests.lease_world import WITHIN_S, Settled, lease_stream, reporting

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Stack

pytestmark = pytest.mark.servers
LEASE_MS = 3_000  # the store charges a lease whole 33 s after its grant: time enough for a slow machine


async def killed_gateway(stack: Stack, folder: Path, name: str) -> tuple[int, int]:
    """What a gateway had allowed in all, and out of leases, when it was killed while it held one."""
    allowed = leased = 0
    async with reporting(stack, folder, policy(f"pl_{name}", capacity=10_000), name) as gateway, asyncio.timeout(60):
        while leased < 200 or not gateway.leases():
            for decided in await asyncio.gather(*(gateway.check("t", "u", "/r") for _ in range(10))):
                assert not decided.degraded
                allowed += decided.allowed
                leased += decided.allowed and decided.approximate
            await asyncio.sleep(0.005)
    return allowed, leased


async def counted(stack: Stack, folder: Path, name: str) -> tuple[int, int]:
    """What is charged and what is reserved at the store."""
    async with reporting(stack, folder, policy(f"pl_{name}", capacity=10_000), f"{name}-look") as gateway:
        await gateway.check("t", "u", "/r", 0)
        (bucket,) = gateway._buckets.values()
        found = await gateway._store.peek(bucket)
        return found.used, found.reserved


def test_a_killed_gateways_leases_are_settled_and_its_last_words_counted(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never credited beyond what is sure; and what the next process tells makes the totals exact."""
    monkeypatch.setattr(limits, "LIMIT_LEASE_MS", LEASE_MS)
    name = f"g{uuid.uuid4().hex[:8]}"
    settled = Settled(stack, name)
    with lease_stream(stack):
        allowed, leased = asyncio.run(killed_gateway(stack, tmp_path, name))
        eventually(lambda: settled.sums()[0] > 0 and settled.open() == 0, WITHIN_S, what="all leases settled")
        rows, granted, reported, assumed, released = settled.sums()
        assert "expired" in settled.reasons()
        assert granted == reported + assumed + released
        assert reported <= leased <= reported + assumed
        assert assumed <= rows * unreported_max(granted)
        assert released > 0
        used, reserved = asyncio.run(counted(stack, tmp_path / "elsewhere", name))
        assert (used, reserved) == (allowed - leased + reported + assumed, 0)

    async def last_words() -> None:
        """The next process of the same gateway, which finds the book and the ring."""
        async with reporting(stack, tmp_path, policy(f"pl_{name}"), name) as gateway:
            leases = gateway._recorder.leases
            assert leases is not None
            assert leases.recovered > 0
            gateway._recorder.flush()

    asyncio.run(last_words())
    with lease_stream(stack):  # a stream that was away reads on where it was
        becomes(lambda: settled.sums()[2], leased, WITHIN_S, what="every spend reported")
    assert settled.sums() == (rows, granted, leased, reported + assumed - leased, released)
    assert settled.violations() == []
