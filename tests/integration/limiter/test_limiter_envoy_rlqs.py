"""The real Envoy enforces quota that the limiter lends it, over a real Valkey: exactly as much passes as there is.

This Envoy reports every five seconds whatever it is told, so each test waits for few reports, and for no time.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import grpc
import httpx
import pytest
import redis
import yaml
from envoy.service.rate_limit_quota.v3 import rlqs_pb2_grpc

from limiter.decide.quota_lender import QuotaLender
from limiter.edge.rlqs import RateLimitQuotaService
from schemas.limiter import limits
from tests.eventually import patient
from tests.worlds.limiter.counter_server import CounterServer, limiter, policies, policy
from tests.worlds.limiter.envoy_process import EnvoyProcess, Upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from limiter import Limiter

pytestmark = pytest.mark.servers
CONFIGURATION: Final = Path(__file__).with_name("envoy_rlqs.yaml")
MANUAL: Final = Path(__file__).parents[3] / "limiter" / "envoy.md"
CAPACITY: Final = 20
_BETWEEN_REQUESTS_S: Final = 0.02  # reports are seconds apart: who asks all the while takes a core from other tests


class Front:
    """One Envoy: ``denying`` and ``allowing`` are its listeners, by what they do without an assignment."""

    def __init__(self, folder: Path) -> None:
        self.envoy = EnvoyProcess(CONFIGURATION, folder)
        self.denying, self.allowing = self.envoy.denying, self.envoy.allowing
        self.envoy.wait_for(self.allowing)


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    found = Front(tmp_path_factory.mktemp("envoy"))
    yield found
    found.envoy.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CounterServer]:
    found = CounterServer(tmp_path_factory.mktemp("valkey"))
    yield found
    found.close()


@asynccontextmanager
async def lending(made: Limiter, port: int) -> AsyncIterator[None]:
    """A limiter's RateLimitQuotaService on that port."""
    grpc_server = grpc.aio.server()
    lender = QuotaLender(made, made._store, made._recorder, "g")
    rlqs_pb2_grpc.add_RateLimitQuotaServiceServicer_to_server(RateLimitQuotaService(made, lender), grpc_server)
    assert grpc_server.add_insecure_port(f"127.0.0.1:{port}") == port
    await grpc_server.start()
    try:
        yield
    finally:
        await grpc_server.stop(None)


class Clients:
    """Users who ask through Envoy."""

    def __init__(self, front: Front, http: httpx.AsyncClient) -> None:
        self.front = front
        self._http = http

    async def ask(self, user: str, *, allowing: bool = False) -> int:
        """The status of one request."""
        port = self.front.allowing if allowing else self.front.denying
        headers = {"x-tenant": "t", "x-user": user}
        return (await self._http.get(f"http://127.0.0.1:{port}/", headers=headers)).status_code

    async def until(self, status: int, user: str, *, allowing: bool = False) -> Counter[int]:
        """Asks until that is the answer; all answers."""
        found: Counter[int] = Counter()
        async with asyncio.timeout(patient(90)):
            while not found[status]:
                found[await self.ask(user, allowing=allowing)] += 1
                await asyncio.sleep(_BETWEEN_REQUESTS_S)
        return found


@pytest.fixture
def clients(front: Front, server: CounterServer, tmp_path: Path) -> Any:
    """Runs a test: Envoy, its upstream, and a limiter under a policy on an empty store."""
    with redis.Redis.from_url(server.url) as connection:
        connection.flushall()

    async def running(test: Any, name: str) -> None:
        async with AsyncExitStack() as parts:
            upstream = await parts.enter_async_context(Upstream().listening(front.envoy.upstream_port))
            lent = policy(name, capacity=CAPACITY, consistency="exact")
            made = await parts.enter_async_context(limiter(server.url, tmp_path, lent))
            http = await parts.enter_async_context(httpx.AsyncClient(trust_env=False, timeout=60))
            users = Clients(front, http)
            await users.until(200, "probe", allowing=True)  # Envoy has noticed that the upstream before is gone
            upstream.paths.clear()
            await test(users, made, upstream)

    return lambda test, name="pl_a": asyncio.run(running(test, name))


def test_exactly_the_quota_passes_and_a_new_policy_holds_at_once(clients: Any, front: Front) -> None:
    async def test(users: Clients, made: Limiter, upstream: Upstream) -> None:
        async with lending(made, front.envoy.limiter_port):
            single = sum([(await made.check("t", "u", "/r")).allowed for _ in range(5)])  # what RLS would ask
            passed = 0
            async with asyncio.timeout(patient(90)):
                while passed + single < CAPACITY:
                    passed += await users.ask("u") == 200
                    await asyncio.sleep(_BETWEEN_REQUESTS_S)
            assert passed == len(upstream.paths)
            for _ in range(50):
                assert await users.ask("u") == 429
            made.use(policies(policy(version=2, capacity=CAPACITY + 2, consistency="exact")))
            assert (await users.until(200, "u"))[200] == 1
            assert (await users.until(200, "u"))[200] == 1
            for _ in range(50):
                assert await users.ask("u") == 429
            made.use(policies())
            await users.until(200, "u")
            assert [await users.ask("u") for _ in range(CAPACITY)] == [200] * CAPACITY

    clients(test)


def test_without_a_limiter_envoy_does_what_its_configuration_says(
    clients: Any, front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before an assignment and after one; in between it spends what it was lent."""
    monkeypatch.setattr(limits, "LIMIT_RLQS_LEASE_MS", 3_100)

    async def test(users: Clients, made: Limiter, _: Upstream) -> None:
        for _ in range(5):
            assert await users.ask("never", allowing=False) == 429
            assert await users.ask("always", allowing=True) == 200
        async with lending(made, front.envoy.limiter_port):
            await users.until(200, "denied later")
            await users.until(429, "allowed later", allowing=True)
        found = await users.until(429, "denied later")
        assert found[200] <= CAPACITY // limits.LIMIT_RLQS_SHARE  # the rest of what was lent
        await users.until(200, "allowed later", allowing=True)  # when its assignment has expired
        assert [await users.ask("allowed later", allowing=True) for _ in range(50)] == [200] * 50
        assert [await users.ask("denied later") for _ in range(50)] == [429] * 50

    clients(test)


def test_users_are_shown_what_was_tested() -> None:
    (shown,) = re.findall(r"## Lend it quota.*?```yaml\n(.*?)```", MANUAL.read_text(), re.DOTALL)
    listener = yaml.safe_load(CONFIGURATION.read_text())["static_resources"]["listeners"][0]
    tested = listener["filter_chains"][0]["filters"][0]["typed_config"]["http_filters"][:1]
    assert yaml.safe_load(shown) == {"http_filters": tested}
