"""Any order of sending, losing answers, giving up, coming late and asking elsewhere: an identity is charged once.

Trap 1 of the limiter, as a search: three gateways, each behind a proxy of its own, in front of one real store. After
every step the store must hold what a model has that charges each identity once. Under a ``leased`` policy one identity
keeps to its gateway, which is what is promised of it; there the sum is taken when all leases are settled.
MILLRACE_TEST_SEED plays a failure's seed again.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, get_state_machine_test, invariant, precondition, rule

from limiter.spending.buckets import Bucket
from schemas import errors
from schemas.limiter import limits
from tests.gate import examples
from tests.seeds import seeds
from tests.worlds.limiter.counter_server import (
    PATIENT_S,
    TEN_MINUTES_MS,
    YEAR_MS,
    CounterServer,
    emptied,
    limiter,
    policy,
    server,
)
from tests.worlds.limiter.store_proxy import StoreProxy

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from limiter import Decision, Limiter

pytestmark = [pytest.mark.servers, pytest.mark.usefixtures("emptied")]
__all__ = ["emptied", "server"]  # the fixtures of this module
Found = TypeVar("Found")
Seen = tuple[bool, bool, bool | None]  # allowed, degraded, duplicate; None where nobody can say
GATEWAYS = 3
LEASE = 8
CAPACITY = {"exact": 20, "leased": 100_000}  # of an exact one the last ones find nothing left
identities = st.integers(1, 6)  # the n-th costs n
gateways = st.integers(0, GATEWAYS - 1)


class World:
    """Gateways and their proxies on one loop; each example asks for a user of its own."""

    def __init__(self, url: str, folder: Path, consistency: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.consistency = consistency
        self.capacity = CAPACITY[consistency]
        self.users = itertools.count()
        self.proxies = [StoreProxy(url) for _ in range(GATEWAYS)]
        self.gateways: list[Limiter] = []
        self._entered = AsyncExitStack()
        self.run(self._begin(url, folder))

    async def _begin(self, url: str, folder: Path) -> None:
        terms: dict[str, Any] = {"capacity": self.capacity, "window_ms": YEAR_MS, "failure_mode": "closed"}
        found = policy(consistency=self.consistency, **terms)
        for n, proxy in enumerate(self.proxies):
            address = await self._entered.enter_async_context(proxy.url())
            gateway = limiter(address, folder, found, name=f"g{n}", timeout_s=PATIENT_S)
            self.gateways.append(await self._entered.enter_async_context(gateway))
        watcher = limiter(url, folder, found, name="watcher", timeout_s=PATIENT_S)
        self.watcher = await self._entered.enter_async_context(watcher)

    def run(self, work: Coroutine[Any, Any, Found]) -> Found:
        return self.loop.run_until_complete(work)

    def close(self) -> None:
        self.run(self._entered.aclose())
        self.loop.close()


def seen(decided: Decision) -> Seen:
    return decided.allowed, decided.degraded, decided.duplicate


def fits(decided: Decision, wanted: Seen) -> bool:
    return seen(decided)[:2] == wanted[:2] and wanted[2] in (None, decided.duplicate)


class AnyOrder(RuleBasedStateMachine):
    """One user's requests, and everything that may happen to their answers."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.user = f"u{next(world.users)}"
        for proxy in world.proxies:  # whatever an example that failed has left
            proxy.dropping = False
            world.loop.call_soon(proxy.delivering.set)
        self.charged: set[int] = set()  # identities
        #: of what leases may pay: an ended lease is settled first, so that its request may not have been asked at all
        self.uncertain: set[int] = set()
        self.others = 0  # what was charged without one
        self.late: dict[int, list[tuple[asyncio.Task[Decision], Seen]]] = {}  # by gateway, with what is to be answered

    @property
    def used(self) -> int:
        return sum(self.charged) + self.others

    def place(self, identity: int, gateway: int) -> int:
        """Where it is asked: one that leases may pay keeps to its gateway."""
        return gateway if self.world.consistency == "exact" else identity % GATEWAYS

    def charge(self, identity: int) -> Seen:
        """What the model says of a request, which the store has done when this is called."""
        before = None if identity in self.uncertain else identity in self.charged
        self.uncertain.discard(identity)
        allowed = before or self.used + identity <= self.world.capacity
        if allowed:
            self.charged.add(identity)
        return allowed, False, before

    def lost(self, identity: int) -> None:
        """Nobody heard the answer to a request."""
        if self.world.consistency == "exact":
            self.charge(identity)
        elif identity not in self.charged:
            self.uncertain.add(identity)

    async def ask(self, identity: int, gateway: int) -> Decision:
        return await self.world.gateways[gateway].check("t", self.user, "/r", identity, f"{self.user}-{identity}")

    async def connected(self, gateway: int) -> StoreProxy:
        """The gateway has a connection: what gets lost is the answer to a request, not to a greeting."""
        asked = self.world.gateways[gateway]
        while asked._calls.refills:
            await asyncio.gather(*asked._calls.refills)
        await asked._store.peek(self.bucket(asked))
        return self.world.proxies[gateway]

    def bucket(self, gateway: Limiter) -> Bucket:
        return gateway.governed("t", self.user, "/r").buckets[0]

    async def held_back(self, identity: int, gateway: int) -> asyncio.Task[Decision]:
        """Asked; the store has done it, and its answer waits, unless the gateway had no need to ask."""
        proxy = await self.connected(gateway)
        proxy.delivering.clear()
        before, task = proxy.waiting, asyncio.create_task(self.ask(identity, gateway))
        while proxy.waiting == before and not task.done():  # noqa: ASYNC110 - the proxy tells nobody
            await asyncio.sleep(0.001)
        return task

    @rule(identity=identities, gateway=gateways)
    def send(self, identity: int, gateway: int) -> None:
        if (place := self.place(identity, gateway)) not in self.late:
            decided = self.world.run(self.ask(identity, place))
            assert fits(decided, self.charge(identity))

    @rule(identity=identities, gateway=gateways)
    def lose(self, identity: int, gateway: int) -> None:
        """The reply is dropped and the connection ends; nothing that was not asked for is answered as allowed."""
        place = self.place(identity, gateway)
        if place in self.late:
            return

        async def lost() -> Decision:
            proxy = await self.connected(place)
            proxy.dropping = True
            try:
                return await self.ask(identity, place)
            finally:
                proxy.dropping = False

        decided = self.world.run(lost())
        if decided.degraded:
            assert not decided.allowed
            self.lost(identity)
        else:  # the gateway had no need to ask
            assert fits(decided, self.charge(identity))

    @rule(identity=identities, gateway=gateways)
    def give_up(self, identity: int, gateway: int) -> None:
        """Whoever asked goes away while the answer is on its way, as a proxy does at its own time-out."""
        place = self.place(identity, gateway)
        if place in self.late:
            return

        async def gone() -> Decision | None:
            task = await self.held_back(identity, place)
            answered = not task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self.world.proxies[place].delivering.set()
            return task.result() if answered else None

        decided = self.world.run(gone())
        if decided is None:
            self.lost(identity)
        else:
            assert fits(decided, self.charge(identity))

    @rule(identity=identities, gateway=gateways)
    def delay(self, identity: int, gateway: int) -> None:
        """The answer stays on its way; whoever asks the same gateway meanwhile gets that answer too."""
        place = self.place(identity, gateway)
        if place in self.late:
            return
        task = self.world.run(self.held_back(identity, place))
        wanted = self.charge(identity)
        joined = self.world.loop.create_task(self.ask(identity, place))
        self.late[place] = [(task, wanted), (joined, (wanted[0], False, wanted[0]))]

    @precondition(lambda self: self.late)
    @rule()
    def deliver(self) -> None:
        """All that is late arrives."""

        async def arrived() -> None:
            for place, answers in self.late.items():
                self.world.proxies[place].delivering.set()
                for task, wanted in answers:
                    assert fits(await task, wanted)

        self.world.run(arrived())
        self.late.clear()

    @rule(identity=identities, count=st.integers(2, 4))
    def at_once(self, identity: int, count: int) -> None:
        """The same request at several gateways, several times at each."""
        places = {self.place(identity, gateway) for gateway in range(GATEWAYS)} - set(self.late)
        if not places:
            return

        async def together() -> list[Decision]:
            return await asyncio.gather(*(self.ask(identity, place) for place in places for _ in range(count)))

        found = self.world.run(together())
        allowed, _, before = self.charge(identity)
        assert {(d.allowed, d.degraded) for d in found} == {(allowed, False)}
        if before is not None:
            assert sum(not d.duplicate for d in found) == (len(found) if not allowed else 0 if before else 1)

    @rule(identity=identities, gateway=gateways)
    def lie(self, identity: int, gateway: int) -> None:
        """Another cost under an identity that was charged."""
        place = self.place(identity, gateway)
        if identity in self.charged and place not in self.late:
            asked = self.world.gateways[place].check("t", self.user, "/r", 9, f"{self.user}-{identity}")
            with pytest.raises(errors.KeyReused):
                self.world.run(asked)

    @rule(count=st.integers(1, 3), gateway=gateways)
    def ask_without_identity(self, count: int, gateway: int) -> None:
        """Demand: of a leased policy it brings leases."""
        if gateway in self.late:
            return

        async def one_by_one() -> list[bool]:
            asked = self.world.gateways[gateway]
            return [(await asked.check("t", self.user, "/r")).allowed for _ in range(count)]

        allowed = min(count, max(0, self.world.capacity - self.used))
        assert sum(self.world.run(one_by_one())) == allowed
        self.others += allowed

    @invariant()
    def the_store_has_what_the_model_has(self) -> None:
        if self.world.consistency == "exact":
            self.assert_used()

    def assert_used(self) -> None:
        watcher = self.world.watcher
        assert self.world.run(watcher._store.peek(self.bucket(watcher))).used == self.used

    def teardown(self) -> None:
        """What leases spent is charged when they are settled, and the sum is right."""
        self.deliver()
        for identity in sorted(self.uncertain):
            self.send(identity, 0)

        async def settled() -> None:
            for gateway in self.world.gateways:
                self.bucket(gateway).end_lease()
                await gateway.maintain()

        self.world.run(settled())
        self.assert_used()


@pytest.mark.parametrize("run_seed", seeds(1))
@pytest.mark.parametrize("consistency", ["exact", "leased"])
def test_in_any_order_an_identity_is_charged_once(
    server: CounterServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, consistency: str, run_seed: int
) -> None:
    monkeypatch.setattr(limits, "LIMIT_STORE_RETRY_S", 0.0)  # a store whose answer was lost is asked again at once
    for name in ("LIMIT_LEASE_MS", "LIMIT_IDENTITY_MS"):  # nothing ends by itself however slow this machine is
        monkeypatch.setattr(limits, name, TEN_MINUTES_MS)
    # a lease for the asking: the search then finds again what it has found, however slow this machine is
    monkeypatch.setattr(Bucket, "wanted", lambda bucket, _: LEASE * (bucket.level.policy.consistency == "leased"))
    world = World(server.url, tmp_path, consistency)
    search = get_state_machine_test(
        lambda: AnyOrder(world),  # type: ignore[arg-type, return-value]
        settings=settings(
            max_examples=examples(15, 40),
            stateful_step_count=30,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    try:
        seed(run_seed)(search)()
    finally:
        world.close()
