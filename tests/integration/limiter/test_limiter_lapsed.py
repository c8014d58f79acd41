"""Policies that are too old: each one's failure mode decides, and nothing of the store is spent, until newer ones come."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.worlds.limiter.counter_server import CounterServer, limiter, policies, policy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CounterServer]:
    found = CounterServer(tmp_path_factory.mktemp("valkey"))
    yield found
    found.close()


@pytest.mark.parametrize(("mode", "allowed"), [("closed", False), ("stale", False), ("open", True)])
@pytest.mark.parametrize("consistency", ["exact", "leased"])
def test_failure_modes_decide_until_newer_policies_come(
    server: CounterServer, tmp_path: Path, mode: str, allowed: bool, consistency: str
) -> None:
    async def test() -> None:
        terms: dict[str, Any] = {"consistency": consistency, "failure_mode": mode, "capacity": 1_000}
        known = policy(f"pl_{mode}_{consistency}", **terms)
        async with limiter(server.url, tmp_path, known) as made:
            spent = 0
            for _ in range(100):
                spent += (await made.check("t", "u", "/r")).allowed
            calls = made.store_calls
            made.lapse()
            decided = [await made.check("t", "u", "/r") for _ in range(20)]
            assert {(found.allowed, found.degraded) for found in decided} == {(allowed, True)}
            assert (made.store_calls, made.degraded, made.leases()) == (calls, 20, 0)
            made.use(policies(known))
            await made.maintain()
            after = await made.check("t", "u", "/r", 0)
            assert (after.allowed, after.degraded) == (True, False)
            assert after.remaining == 1_000 - spent  # nothing was taken meanwhile, and leases were settled

    asyncio.run(test())
