"""The real Envoy asks the limiter's RateLimitService, over a real Valkey: 200 and 429 as the policy says."""

from __future__ import annotations

import asyncio
import itertools
import re
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import grpc
import httpx
import pytest
import redis
import yaml
from envoy.service.ratelimit.v3 import rls_pb2_grpc

from limiter.edge.rls import RateLimitService
from tests.eventually import patient
from tests.worlds.limiter.counter_server import CounterServer, hasty, limiter, policies, policy, server
from tests.worlds.limiter.envoy_process import EnvoyProcess, Upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from limiter import Limiter
    from schemas.limiter.limit_policy import LimitPolicy

pytestmark = pytest.mark.servers
__all__ = ["server"]  # the fixtures of this module
CONFIGURATION: Final = Path(__file__).with_name("envoy_rls.yaml")
MANUAL: Final = Path(__file__).parents[3] / "limiter" / "envoy.md"
CAPACITY: Final = 10
DAY_MS: Final = 86_400_000


class Front:
    """One Envoy, started once: ``denying`` and ``allowing`` are its listeners, by what they do without a limiter."""

    def __init__(self, folder: Path) -> None:
        self.envoy = EnvoyProcess(CONFIGURATION, folder)
        self.denying, self.allowing = self.envoy.denying, self.envoy.allowing
        self.envoy.wait_for(self.allowing)


class System:
    """What a client and an operator of that Envoy do."""

    def __init__(self, front: Front, made: Limiter, upstream: Upstream, http: httpx.AsyncClient) -> None:
        self.front = front
        self.limiter = made
        self.upstream = upstream
        self.http = http
        self._probes = itertools.count()

    async def ask(self, path: str = "/r", *, port: int | None = None, identity: str = "", tenant: str = "t") -> Any:
        """One request of user ``u``."""
        headers = {"x-tenant": tenant, "x-user": "u"} | ({"x-request-id": identity} if identity else {})
        return await self.http.get(f"http://127.0.0.1:{port or self.front.denying}{path}", headers=headers)

    async def connected(self, port: int) -> None:
        """Envoy has noticed that those of the test before are gone, and found the new ones; for nobody's quota."""
        async with asyncio.timeout(patient(60)):
            while (await self.ask(port=port, tenant=f"probe-{next(self._probes)}")).status_code != 200:
                pass

    async def statuses(self, count: int, **asked: Any) -> list[int]:
        """The answers to so many, one after another."""
        return [(await self.ask(**asked)).status_code for _ in range(count)]

    async def remaining(self) -> int:
        """What the key has left, without taking any."""
        return (await self.limiter.check("t", "u", "/r", 0)).remaining


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    found = Front(tmp_path_factory.mktemp("envoy"))
    yield found
    found.envoy.close()


@asynccontextmanager
async def served(made: Limiter, port: int) -> AsyncIterator[None]:
    """A limiter's RateLimitService on that port."""
    grpc_server = grpc.aio.server()
    rls_pb2_grpc.add_RateLimitServiceServicer_to_server(RateLimitService(made), grpc_server)
    assert grpc_server.add_insecure_port(f"127.0.0.1:{port}") == port
    await grpc_server.start()
    try:
        yield
    finally:
        await grpc_server.stop(None)


@pytest.fixture
def behind_envoy(front: Front, server: CounterServer, tmp_path: Path) -> Callable[..., None]:
    """Runs a test on an empty store: Envoy, a limiter under the policies given (or none at all), an upstream."""
    with redis.Redis.from_url(server.url) as connection:
        connection.flushall()

    async def running(
        test: Callable[[System], Awaitable[None]],
        *found: LimitPolicy,
        limited: bool = True,
    ) -> None:
        async with AsyncExitStack() as parts:
            upstream = await parts.enter_async_context(Upstream().listening(front.envoy.upstream_port))
            made = await parts.enter_async_context(limiter(server.url, tmp_path, *found))
            if limited:
                await parts.enter_async_context(served(made, front.envoy.limiter_port))
            http = await parts.enter_async_context(httpx.AsyncClient(trust_env=False, timeout=60))
            system = System(front, made, upstream, http)
            await system.connected(front.allowing)
            if limited:
                await system.connected(front.denying)
            upstream.paths.clear()
            await test(system)

    return lambda *given, **options: asyncio.run(running(*given, **options))


EXACT: Final = policy(capacity=CAPACITY, window_ms=DAY_MS, consistency="exact")


def test_as_many_pass_as_the_policy_says_and_no_more_reach_the_upstream(behind_envoy: Any) -> None:
    async def test(system: System) -> None:
        assert await system.statuses(14) == [200] * 10 + [429] * 4
        assert system.upstream.paths == ["/r"] * 10
        assert await system.statuses(2, path="//r/?page=2") == [429] * 2  # other names of the same key
        assert await system.statuses(2, path="/other") == [200] * 2

    behind_envoy(test, EXACT)


def test_clients_are_told_the_limit_what_is_left_and_when_to_come_again(behind_envoy: Any) -> None:
    async def test(system: System) -> None:
        told = [await system.ask() for _ in range(CAPACITY + 1)]
        assert {answer.headers["x-ratelimit-limit"] for answer in told} == {f'10, 10;w=86400;name="{EXACT.policy_id}"'}
        left = [int(answer.headers["x-ratelimit-remaining"]) for answer in told]
        assert left == [*range(9, -1, -1), 0]
        assert all(0 < int(answer.headers["x-ratelimit-reset"]) <= 86_400 for answer in told)
        denied = told[-1]
        assert int(denied.headers["x-ratelimit-reset"]) <= int(denied.headers["retry-after"]) <= 86_400
        assert "retry-after" not in told[0].headers

    behind_envoy(test, EXACT)


def test_a_request_that_is_sent_again_with_its_id_is_charged_once(behind_envoy: Any) -> None:
    async def test(system: System) -> None:
        for _ in range(3):
            assert (await system.ask(identity="one")).status_code == 200
        assert await system.remaining() == CAPACITY - 1
        await system.statuses(2)  # Envoy makes an id of its own for each of these
        assert await system.remaining() == CAPACITY - 3

    behind_envoy(test, EXACT)


def test_a_policy_published_meanwhile_decides_at_once(behind_envoy: Any) -> None:
    async def test(system: System) -> None:
        assert await system.statuses(11) == [200] * 10 + [429]
        system.limiter.use(policies(policy(version=2, capacity=12, window_ms=DAY_MS, consistency="exact")))
        assert await system.statuses(4) == [200] * 2 + [429] * 2
        system.limiter.use(policies(policy(version=3, capacity=5, window_ms=DAY_MS, consistency="exact")))
        assert await system.statuses(2) == [429] * 2
        system.limiter.use(policies())
        assert await system.statuses(2) == [200] * 2

    behind_envoy(test, EXACT)


def test_without_a_limiter_the_filter_says_what_happens(behind_envoy: Any) -> None:
    async def test(system: System) -> None:
        assert await system.statuses(3, port=system.front.denying) == [500] * 3
        assert await system.statuses(3, port=system.front.allowing) == [200] * 3
        assert len(system.upstream.paths) == 3
        async with served(system.limiter, system.front.envoy.limiter_port):  # and it is found again when it is back
            while (await system.ask()).status_code == 500:
                pass
            assert (await system.statuses(CAPACITY))[-1] == 429

    behind_envoy(test, EXACT, limited=False)


@pytest.mark.parametrize(("mode", "expected"), [("closed", [429] * 12), ("open", [200] * 10 + [429] * 2)])
def test_without_the_store_the_policy_says_what_happens(
    behind_envoy: Any, server: CounterServer, mode: str, expected: list[int]
) -> None:
    async def test(system: System) -> None:
        with server.frozen(), hasty(system.limiter):
            for port in (system.front.denying, system.front.allowing):  # Envoy has its answer: both do the same
                found = await system.statuses(12, port=port)
                assert found == (expected if port == system.front.denying else [expected[-1]] * 12)
        assert system.limiter.degraded == 24

    behind_envoy(test, policy(capacity=CAPACITY, consistency="exact", failure_mode=mode))


def test_a_key_that_cannot_be_one_is_left_to_the_filter_and_charges_nothing(behind_envoy: Any) -> None:
    async def test(system: System) -> None:
        for path in ("/%00", "/" + "x" * 2_000):
            assert (await system.ask(path, port=system.front.denying)).status_code == 500
            assert (await system.ask(path, port=system.front.allowing)).status_code == 200
        assert await system.remaining() == CAPACITY

    behind_envoy(test, EXACT)


def test_users_are_shown_what_was_tested() -> None:
    """The manual's configuration is the one of these tests, but for its patience."""
    (shown,) = re.findall(r"## Ask for every request.*?```yaml\n(.*?)```", MANUAL.read_text(), re.DOTALL)
    listener = yaml.safe_load(CONFIGURATION.read_text())["static_resources"]["listeners"][0]
    front = listener["filter_chains"][0]["filters"][0]["typed_config"]
    tested = {"http_filters": front["http_filters"][:1], **front["route_config"]["virtual_hosts"][0]}
    manual = yaml.safe_load(shown)
    for configuration in (manual, tested):
        configuration["http_filters"][0]["typed_config"]["timeout"] = "any"
    assert manual == {name: tested[name] for name in manual}
