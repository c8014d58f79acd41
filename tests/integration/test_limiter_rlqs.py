"""RateLimitQuotaService over gRPC, on a real Valkey: what raw streams report, are assigned, and may cost in all."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import grpc
import pytest
import redis
from envoy.service.rate_limit_quota.v3 import rlqs_pb2, rlqs_pb2_grpc

from limiter.quota_lender import QuotaLender
from limiter.rlqs import RateLimitQuotaService
from schemas import limits
from tests.counter_server import CounterServer, limiter, policy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

    from limiter import Limiter
    from schemas.limit_policy import LimitPolicy

pytestmark = pytest.mark.servers
CAPACITY: Final = 40
PART: Final = CAPACITY // limits.LIMIT_RLQS_SHARE
_PATIENT_S: Final = 20.0
USER: Final = {"tenant": "t", "user": "u", "route": "/r"}


class Proxy:
    """The stream of one Envoy."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.call = rlqs_pb2_grpc.RateLimitQuotaServiceStub(channel).StreamRateLimitQuotas()

    async def report(self, allowed: int = 0, denied: int = 0, domain: str = "d", **parts: str) -> None:
        """Usage of one bucket since the last report."""
        report = rlqs_pb2.RateLimitQuotaUsageReports(domain=domain)
        usage = report.bucket_quota_usages.add(num_requests_allowed=allowed, num_requests_denied=denied)
        usage.bucket_id.bucket.update(USER | parts)
        usage.time_elapsed.SetInParent()
        await self.call.write(report)

    async def told(self) -> Any:
        """The next action for the one bucket that there is; the last one of a response holds."""
        return (await asyncio.wait_for(self.call.read(), 60)).bucket_action[-1]

    async def tokens(self) -> int:
        """The next assignment: how much, 0 for DENY_ALL, -1 for ALLOW_ALL."""
        assigned = (await self.told()).quota_assignment_action
        assert assigned.assignment_time_to_live.seconds >= 1
        strategy = assigned.rate_limit_strategy
        if strategy.WhichOneof("strategy") == "token_bucket":
            return int(strategy.token_bucket.max_tokens)
        return 0 if strategy.blanket_rule == strategy.DENY_ALL else -1


class Gateway:
    """A limiter that serves streams."""

    def __init__(self, made: Limiter, channel: grpc.aio.Channel) -> None:
        self.limiter = made
        self._channel = channel

    def proxy(self) -> Proxy:
        """Another Envoy."""
        return Proxy(self._channel)

    async def remaining(self, user: str = "u") -> int:
        """What others may have of a key now."""
        decided = await self.limiter.check("t", user, "/r", 0)
        assert not decided.degraded
        return decided.remaining


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CounterServer]:
    found = CounterServer(tmp_path_factory.mktemp("valkey"))
    yield found
    found.close()


@asynccontextmanager
async def serving(made: Limiter) -> AsyncIterator[Gateway]:
    grpc_server = grpc.aio.server()
    lender = QuotaLender(made, made._store, made._recorder, "g")
    rlqs_pb2_grpc.add_RateLimitQuotaServiceServicer_to_server(RateLimitQuotaService(made, lender), grpc_server)
    port = grpc_server.add_insecure_port("127.0.0.1:0")
    await grpc_server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Gateway(made, channel)
    await grpc_server.stop(None)


@pytest.fixture
def lending(server: CounterServer, tmp_path: Path) -> Callable[..., None]:
    """Runs a test on an empty store, with a gateway under the policies given."""
    with redis.Redis.from_url(server.url) as connection:
        connection.flushall()

    async def running(
        test: Callable[[Gateway], Awaitable[None]], *found: LimitPolicy, timeout_s: float = _PATIENT_S
    ) -> None:
        async with AsyncExitStack() as parts:
            made = await parts.enter_async_context(limiter(server.url, tmp_path, *found, timeout_s=timeout_s))
            await test(await parts.enter_async_context(serving(made)))

    return lambda *given, **options: asyncio.run(running(*given, **options))


HOURLY: Final = policy(capacity=CAPACITY, window_ms=3_600_000)


def test_a_share_is_reserved_and_what_was_spent_of_it_is_charged(lending: Any) -> None:
    async def test(gateway: Gateway) -> None:
        envoy = gateway.proxy()
        await envoy.report(allowed=1)  # Envoy let the first one through by its own rule
        first = await envoy.tokens()
        assert first == limits.LIMIT_RLQS_TOKENS_MIN
        assert await gateway.remaining() == CAPACITY - 1 - first
        await envoy.report(allowed=first, denied=4)
        second = await envoy.tokens()
        assert second == PART
        assert await gateway.remaining() == CAPACITY - 1 - first - second

    lending(test, HOURLY)
