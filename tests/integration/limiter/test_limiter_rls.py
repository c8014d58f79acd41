"""RateLimitService calls of several descriptors, over gRPC to a limiter on a real Valkey: all are right, or none counts."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest
import redis
from envoy.service.rate_limit_quota.v3 import rlqs_pb2, rlqs_pb2_grpc
from envoy.service.ratelimit.v3 import rls_pb2, rls_pb2_grpc

from limiter.decide.quota_lender import QuotaLender
from limiter.edge.envoy_server import envoys_server
from schemas.limiter import limits
from tests.worlds.limiter.counter_server import CounterServer, limiter, policy, server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

pytestmark = pytest.mark.servers
__all__ = ["server"]  # the fixtures of this module
OK, OVER_LIMIT = rls_pb2.RateLimitResponse.OK, rls_pb2.RateLimitResponse.OVER_LIMIT
CAPACITY = 10

Entries = list[tuple[str, str]]


def of(route: str = "/r", user: str = "u", tenant: str = "t") -> Entries:
    """The entries of one key."""
    return [("tenant", tenant), ("user", user), ("route", route)]


class Proxy:
    """What Envoy sends."""

    def __init__(self, address: str) -> None:
        self.channel = grpc.aio.insecure_channel(address)
        self._service = rls_pb2_grpc.RateLimitServiceStub(self.channel)

    async def ask(
        self, *descriptors: Entries, identity: str = "", addend: int = 0, addends: tuple[int, ...] = ()
    ) -> Any:
        """One call."""
        request = rls_pb2.RateLimitRequest(domain="d", hits_addend=addend)
        for at, entries in enumerate(descriptors):
            descriptor = request.descriptors.add()
            for key, value in entries:
                descriptor.entries.add(key=key, value=value)
            if addends:
                descriptor.hits_addend.value = addends[at]
        metadata = (("x-request-id", identity),) if identity else ()
        return await self._service.ShouldRateLimit(request, metadata=metadata)

    async def refused(self, *descriptors: Entries, **asked: Any) -> str:
        """The details of the INVALID_ARGUMENT that the call gets."""
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await self.ask(*descriptors, **asked)
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        return error.value.details() or ""

    async def left(self, route: str = "/r") -> int:
        """What remains of a key, without taking any."""
        answer = await self.ask(of(route), addends=(0,))
        return int(answer.statuses[0].limit_remaining)


@pytest.fixture
def proxied(server: CounterServer, tmp_path: Path) -> Callable[[Callable[[Proxy], Awaitable[None]]], None]:
    """Runs a test against a gateway whose policy allows ten on every key."""
    with redis.Redis.from_url(server.url) as connection:
        connection.flushall()

    @asynccontextmanager
    async def gateway() -> AsyncIterator[Proxy]:
        exact = policy(capacity=CAPACITY, consistency="exact")
        async with limiter(server.url, tmp_path, exact) as made:
            served = envoys_server(made, QuotaLender(made, made._store, made._recorder, "g"))
            port = served.add_insecure_port("127.0.0.1:0")
            await served.start()
            proxy = Proxy(f"127.0.0.1:{port}")
            try:
                yield proxy
            finally:
                await proxy.channel.close()
                await served.stop(None)

    async def running(test: Callable[[Proxy], Awaitable[None]]) -> None:
        async with gateway() as proxy:
            await test(proxy)

    return lambda test: asyncio.run(running(test))


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        pytest.param(of(user="u\x01"), "user must not contain control characters", id="control character"),
        pytest.param(of(route=""), "route must have 1 to", id="empty route"),
        pytest.param(of(tenant="%ff"), "tenant is not UTF-8", id="not UTF-8"),
        pytest.param(of(route="/" + "x" * limits.LIMIT_KEY_PART_LENGTH_MAX), "route must have 1 to", id="too long"),
        pytest.param([*of(), ("tenant", "other")], "tenant must be given once", id="two tenants"),
        pytest.param([*of(), ("route", "/r")], "route must be given once", id="one route twice"),
        pytest.param([*of(), ("remote_address", "here")], "network must be an IP address", id="no address"),
    ],
)
def test_a_malformed_second_descriptor_leaves_the_first_uncharged(proxied: Any, second: Entries, reason: str) -> None:
    async def test(proxy: Proxy) -> None:
        assert (await proxy.refused(of(), second)).startswith(reason)
        assert await proxy.left() == CAPACITY

    proxied(test)


#: of neither message: a tag that ends nowhere, a length past the end, text that is not UTF-8, JSON
NO_MESSAGES = (b"\xff", b"\x0a\x7fd", b"\x0a\x02\xc3\x28", b'{"domain": "d"}')


@pytest.mark.parametrize("data", NO_MESSAGES)
def test_bytes_that_are_no_message_are_the_callers_fault(proxied: Any, data: bytes) -> None:
    """Proxies take UNKNOWN for a fault of the limiter. The next call of the connection is answered."""

    async def test(proxy: Proxy) -> None:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await proxy.channel.unary_unary("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit")(data)
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert error.value.details() == "request must be an envoy.service.ratelimit.v3.RateLimitRequest"
        name = "envoy.service.rate_limit_quota.v3.RateLimitQuotaService"
        stream = proxy.channel.stream_stream(f"/{name}/StreamRateLimitQuotas")()
        await stream.write(data)
        assert await stream.code() == grpc.StatusCode.INVALID_ARGUMENT
        said = "report must be an envoy.service.rate_limit_quota.v3.RateLimitQuotaUsageReports"
        assert await stream.details() == said
        assert await proxy.left() == CAPACITY

    proxied(test)


def test_calls_past_the_bound_are_refused_and_consume_nothing(proxied: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams count too; when one ends there is room again."""
    monkeypatch.setattr(limits, "LIMIT_ENVOY_CALLS_MAX", 1)

    async def test(proxy: Proxy) -> None:
        stream = rlqs_pb2_grpc.RateLimitQuotaServiceStub(proxy.channel).StreamRateLimitQuotas()
        report = rlqs_pb2.RateLimitQuotaUsageReports(domain="d")
        report.bucket_quota_usages.add().bucket_id.bucket["user"] = "u"
        await stream.write(report)
        assert (await stream.read()).bucket_action  # the gateway holds it

        async def asked() -> grpc.StatusCode:
            try:
                await proxy.ask(of())
            except grpc.aio.AioRpcError as error:
                return error.code()
            return grpc.StatusCode.OK

        assert await asked() == grpc.StatusCode.RESOURCE_EXHAUSTED
        await stream.done_writing()
        assert await stream.code() == grpc.StatusCode.OK
        async with asyncio.timeout(60):
            while await asked() != grpc.StatusCode.OK:
                pass
        assert await proxy.left() == CAPACITY - 1

    proxied(test)


def test_a_cost_out_of_bounds_consumes_nothing(proxied: Any) -> None:
    async def test(proxy: Proxy) -> None:
        for huge in (limits.LIMIT_COST_MAX + 1, 2**63, 2**64 - 1):  # the last is -1 of a client that mistook the type
            assert "from 0 to" in await proxy.refused(of(), of("/other"), addends=(1, huge))
        assert await proxy.refused(of(), addend=2**32 - 1)
        assert await proxy.left() == CAPACITY

    proxied(test)


def test_a_call_of_too_many_descriptors_consumes_nothing(proxied: Any) -> None:
    async def test(proxy: Proxy) -> None:
        assert await proxy.refused(*[of()] * (limits.LIMIT_DESCRIPTORS_MAX + 1))
        assert await proxy.left() == CAPACITY

    proxied(test)


def test_descriptors_of_one_key_are_charged_each_and_retried_once(proxied: Any) -> None:
    """Two aliases of one key, with costs of their own, under the one identity of the call."""

    async def test(proxy: Proxy) -> None:
        for _ in range(2):
            answer = await proxy.ask(of("/r"), of("//r/"), identity="i", addends=(1, 3))
            assert answer.overall_code == OK
            assert await proxy.left() == CAPACITY - 4
        assert await proxy.refused(of("/r"), identity="i", addend=2)

    proxied(test)


def test_an_identity_is_not_anothers_second_descriptor(proxied: Any) -> None:
    async def test(proxy: Proxy) -> None:
        await proxy.ask(of(), of(), identity="i")
        for named in ("i.1", "i.0", "1", "i"):
            await proxy.ask(of(), identity=named)
        assert await proxy.left() == CAPACITY - 5  # only "i" was a retry

    proxied(test)


def test_a_denied_descriptor_gives_nothing_back_and_a_retry_takes_nothing_more(proxied: Any) -> None:
    async def test(proxy: Proxy) -> None:
        await proxy.ask(of("/full"), addend=CAPACITY)
        for _ in range(2):
            answer = await proxy.ask(of("/r"), of("/full"), identity="i")
            assert answer.overall_code == OVER_LIMIT
            assert [status.code for status in answer.statuses] == [OK, OVER_LIMIT]
            assert await proxy.left("/r") == CAPACITY - 1

    proxied(test)


def test_entries_that_make_no_key_may_repeat(proxied: Any) -> None:
    """Envoy's generic_key, for one, has the same name as often as it is configured."""

    async def test(proxy: Proxy) -> None:
        answer = await proxy.ask([*of(), ("generic_key", "a"), ("generic_key", "b")])
        assert answer.overall_code == OK

    proxied(test)


def test_hits_that_are_to_be_given_back_are_not_charged(proxied: Any) -> None:
    """Newer Envoys send ``is_negative_hits``, which the generated messages do not know: their hits are no cost."""
    method = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

    async def test(proxy: Proxy) -> None:
        request = rls_pb2.RateLimitRequest(domain="d")
        descriptor = request.descriptors.add()
        for key, value in of():
            descriptor.entries.add(key=key, value=value)
        descriptor.hits_addend.value = 4
        data = descriptor.SerializeToString()
        for said, refused in ((b"\x20\x01", True), (b"\x20\x00", False), (b"\x28\x01", False)):
            asked = b"\x0a\x01d\x12" + bytes([len(data + said)]) + data + said
            call = proxy.channel.unary_unary(method, response_deserializer=rls_pb2.RateLimitResponse.FromString)
            before = await proxy.left()
            if not refused:
                assert (await call(asked)).overall_code == OK
                assert await proxy.left() == before - 4
                continue
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await call(asked)
            assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert "is_negative_hits" in (error.value.details() or "")
            assert await proxy.left() == before

    proxied(test)
