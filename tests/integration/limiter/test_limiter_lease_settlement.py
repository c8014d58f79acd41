"""Leases that nobody ended are settled from the stream, on real servers: never less than was spent, and only once."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

import psycopg
import pytest

from limiter.stream.lease_book import unreported_max
from schemas.limiter import limits
from tests.eventually import becomes, eventually
from tests.worlds.limiter.counter_server import policy
from tests.worlds.limiter.lease_world import WITHIN_S, Settled, lease_stream, reporting

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers import World

pytestmark = pytest.mark.servers
MONTH_MS = 30 * 86_400_000
AMPLE = 1_000_000  # the killed gateway's lease, at most a tenth of it, leaves enough for the other one
LEASE_MS = 3_000  # the store charges a lease whole 33 s after its grant: time enough for a slow machine


async def killed_gateway(stack: World, folder: Path, name: str) -> tuple[int, int]:
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


async def counted(stack: World, folder: Path, name: str, **terms: int) -> tuple[int, int]:
    """What is charged and what is reserved at the store."""
    async with reporting(
        stack, folder, policy(f"pl_{name}", **{"capacity": 10_000} | terms), f"{name}-look"
    ) as gateway:
        await gateway.check("t", "u", "/r", 0)
        (bucket,) = gateway._buckets.values()
        found = await gateway._store.peek(bucket)
        return found.used, found.reserved


def test_a_killed_gateways_leases_are_settled_and_its_last_words_counted(
    stack: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never credited beyond what is sure; and what the next process tells makes the totals exact.

    Of two processes that settle one stands by.
    """
    monkeypatch.setattr(limits, "LIMIT_LEASE_MS", LEASE_MS)
    name = f"g{uuid.uuid4().hex[:8]}"
    settled = Settled(stack, name)
    with lease_stream(stack), lease_stream(stack):
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


class Tenant:
    """One key, for which several gateways decide."""

    def __init__(self, stack: World, folder: Path) -> None:
        self._stack, self._folder = stack, folder
        self.name = f"g{uuid.uuid4().hex[:8]}"
        self._month = policy(f"pl_{self.name}", capacity=AMPLE, window_ms=MONTH_MS)
        self.settled = Settled(stack, f"{self.name}-%")
        self.charged = 0  # by all gateways together

    def spend(self, place: str, identities: list[int], *, is_killed: bool = False) -> None:
        """The gateway of this place charges these identities out of leases, and other requests while it has none."""
        asyncio.run(self._spent(place, [f"identity-{n}" for n in identities], is_killed))

    async def _spent(self, place: str, identities: list[str], is_killed: bool) -> None:
        name = f"{self.name}-{place}"
        async with reporting(self._stack, self._folder, self._month, name) as gateway, asyncio.timeout(60):
            for identity in identities:
                while (decided := gateway.check_now("t", "u", "/r", 1, identity)) is None:
                    found = await asyncio.gather(*(gateway.check("t", "u", "/r") for _ in range(10)))
                    self.charged += sum(decided.allowed for decided in found)
                    await asyncio.sleep(0.005)
                assert decided.allowed
                assert not decided.duplicate
                self.charged += 1
            if not is_killed:
                gateway._recorder.flush()  # what it says last: its leases it leaves to the stream

    def given_back(self, place: str) -> list[tuple[int, int]]:
        """How many charges of the gateway, and what they had cost."""
        query = "select count(*), coalesce(sum(credited), 0)::bigint from limit_lease_refund where lease_id like %s"
        return self.settled._rows(f"{query} and outcome = 'credited'", (f"{self.name}-{place}.%",))

    def is_charged(self, given_back: int) -> None:
        """Once everything is settled the store has charged all but so much, and what had to be assumed."""
        eventually(lambda: self.settled.open() == 0, WITHIN_S, what="all leases settled")
        _, granted, reported, assumed, released = self.settled.sums()
        assert granted == reported + assumed + released
        assert reported + assumed >= given_back  # a gateway that ends need not have reported what it spent last
        elsewhere = counted(self._stack, self._folder / "look", self.name, capacity=AMPLE, window_ms=MONTH_MS)
        used, reserved = asyncio.run(elsewhere)
        assert reserved == 0
        assert self.charged - given_back <= used <= self.charged - given_back + assumed
        assert self.settled.violations() == []


def test_what_several_gateways_charged_under_one_identity_is_given_back_once(
    stack: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By way of Kafka. The second gateway is killed, and the next process of its place tells what it had not said.

    Both topics are then read from their beginning: one charge more is given back, that of a fourth gateway.
    """
    monkeypatch.setattr(limits, "LIMIT_LEASE_MS", LEASE_MS)
    tenant = Tenant(stack, tmp_path)
    with lease_stream(stack):
        tenant.spend("one", [*range(15)])
        tenant.spend("two", [*range(5, 20)], is_killed=True)
        tenant.spend("two", [])
        tenant.spend("three", [*range(20)])
        becomes(lambda: tenant.given_back("three"), [(20, 20)], WITHIN_S, what="twenty given back")
        becomes(lambda: tenant.given_back("two"), [(10, 10)], WITHIN_S, what="ten given back")
        assert tenant.given_back("one") == [(0, 0)]
        tenant.is_charged(given_back=30)
    with psycopg.connect(stack.addresses.postgres_superuser_dsn, autocommit=True) as connection:
        connection.execute("update stream_position set next_offset = 0 where follower like 'limiter_%'")
    with lease_stream(stack):
        tenant.spend("four", [0])  # of the same partitions: all before it was read again when it is given back
        becomes(lambda: tenant.given_back("four"), [(1, 1)], WITHIN_S, what="one more given back")
        tenant.is_charged(given_back=31)
    assert [tenant.given_back(place) for place in ("one", "two", "three")] == [[(0, 0)], [(10, 10)], [(20, 20)]]
