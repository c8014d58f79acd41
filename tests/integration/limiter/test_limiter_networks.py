"""Quotas by network, block lists and allow lists through every door of a gateway, over a limiter on a real Valkey."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import pytest
import redis
from envoy.service.ratelimit.v3 import rls_pb2, rls_pb2_grpc

from limiter.edge.frame_server import FrameServer
from limiter.edge.rls import RateLimitService
from limiter.frames import frames
from limiter.frames.frame_client_async import AsyncFrameClient
from limiter.frames.frame_requests import Check
from schemas import errors
from schemas.limiter.limit_policy import LimitPolicy
from tests.worlds.limiter.counter_server import CounterServer, limiter, listed, policies, policy

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Sequence
    from pathlib import Path

pytestmark = pytest.mark.servers
PATIENT_S = 60  # here no gateway is away: a busy machine must not look like one that is
_OF_FIFTY = {"exact": [50], "leased": range(45, 51)}  # an idle lease may hold a tenth of a quota
HERE, NEIGHBOUR, ELSEWHERE = "192.0.2.7", "::ffff:192.0.2.200", "2001:db8::7"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CounterServer]:
    found = CounterServer(tmp_path_factory.mktemp("valkey"))
    yield found
    found.close()


@pytest.fixture(autouse=True)
def _empty(server: CounterServer) -> None:
    with redis.Redis.from_url(server.url) as connection:
        connection.flushall()


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def by_network(**changes: Any) -> LimitPolicy:
    """Five of a tenant's network in an hour, changed."""
    return policy(**({"capacity": 5, "per": ["tenant", "network"], "consistency": "exact"} | changes))


@pytest.mark.parametrize("consistency", ["exact", "leased"])
def test_a_network_has_one_quota_whatever_address_asks(server: CounterServer, tmp_path: Path, consistency: str) -> None:
    async def test() -> None:
        leased = by_network(capacity=50, consistency=consistency)
        async with limiter(server.url, tmp_path, leased) as made:
            asked = [f"192.0.2.{n}" if n % 2 else f"::ffff:192.0.2.{n}" for n in range(200)]
            admitted = [(await made.check("t", "u", "/r", network=address)).allowed for address in asked]
            assert sum(admitted) in _OF_FIFTY[consistency]
            assert (await made.check("t", "u", "/r", network=ELSEWHERE)).allowed
            assert (await made.check("t", "u", "/r")).policy_id == ""  # from nowhere: not governed

    run(test())


def test_an_identity_is_one_wherever_its_client_has_moved(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with limiter(server.url, tmp_path, by_network()) as made:
            first = await made.check("t", "u", "/r", 3, "once", HERE)
            again = await made.check("t", "u", "/r", 3, "once", ELSEWHERE)
            assert (first.allowed, again.allowed, again.duplicate) == (True, True, True)
            assert (await made.check("t", "u", "/r", 0, None, ELSEWHERE)).remaining == 5

    run(test())


def test_what_is_no_address_is_refused_and_nothing_is_consumed(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with limiter(server.url, tmp_path, by_network()) as made:
            for network in ("fe80::1%eth0", "host", ""):
                with pytest.raises(errors.InvalidCommand):
                    await made.check("t", "u", "/r", network=network)
            made.use(policies(policy(consistency="exact")))  # and so it is while nobody asks for networks
            with pytest.raises(errors.InvalidCommand):
                await made.check("t", "u", "/r", network="host")
            assert made.store_calls == 0

    run(test())


@pytest.mark.parametrize("consistency", ["exact", "leased"])
def test_frames_name_clients(server: CounterServer, tmp_path: Path, consistency: str) -> None:
    """Beside keys without one, on one connection; the answer is the caller's place for place."""

    async def test() -> None:
        found = by_network(capacity=50, consistency=consistency)
        async with limiter(server.url, tmp_path, found) as made:
            served = FrameServer(made)
            await served.serve_unix(tmp_path / "g.sock")
            async with AsyncFrameClient(str(tmp_path / "g.sock"), timeout_s=PATIENT_S) as client:
                checks = [Check("t", "u", "/r", network=f"192.0.2.{n % 200}") for n in range(200)]
                admitted = sum(answer.allowed for answer in await client.check_many(checks))
                admitted += sum(answer.allowed for answer in await client.check_many(checks))
                assert admitted in _OF_FIFTY[consistency]
                mixed = [
                    Check("t", "u", "/r"),
                    Check("t", "u", "/r", network=ELSEWHERE),
                    Check("t", "u", "/r", 1, None, "x"),
                ]
                nowhere, elsewhere, wrong = await client.check_many(mixed)
                assert (nowhere.policy_version, elsewhere.policy_version) == (0, 1)
                assert (nowhere.allowed, elsewhere.allowed) == (True, True)
                assert (wrong.allowed, wrong.flags) == (False, frames.INVALID)
            await served.close()

    run(test())


class Context:
    """What gRPC gives a servicer."""

    def invocation_metadata(self) -> Sequence[tuple[str, str]]:
        return ()

    def time_remaining(self) -> float | None:
        return None

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        raise ConnectionAbortedError(code, details)


def described(**entries: str) -> Any:
    request = rls_pb2.RateLimitRequest(domain="d")
    descriptor = request.descriptors.add()
    for key, value in entries.items():
        descriptor.entries.add(key=key, value=value)
    return request


def test_envoy_says_from_where(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with limiter(server.url, tmp_path, by_network()) as made:
            service: rls_pb2_grpc.RateLimitServiceServicer = RateLimitService(made)

            async def asked(**entries: str) -> Any:
                return await service.ShouldRateLimit(described(tenant="t", **entries), Context())

            for entry in ("remote_address", "masked_remote_address", "remote_address"):
                text = "192.0.2.0/24" if entry.startswith("masked") else HERE
                assert (await asked(**{entry: text})).overall_code == rls_pb2.RateLimitResponse.OK
            left = await asked(remote_address=NEIGHBOUR)
            assert left.statuses[0].limit_remaining == 1
            assert (await asked(remote_address=ELSEWHERE)).statuses[0].limit_remaining == 4
            with pytest.raises(ConnectionAbortedError, match="INVALID_ARGUMENT"):
                await asked(remote_address="fe80::1%1")

    run(test())


def test_lists_decide_without_the_store(tmp_path: Path) -> None:
    """Nobody listens at its address: an answer that is not degraded has asked nobody."""

    async def test() -> None:
        blocked = listed("deny", "pl_block", per=["network"], scope={"network": "192.0.2.0/24"})
        free = listed("unlimited", "pl_free", scope={"tenant": "vip"})
        counted = policy("pl_all", capacity=5, consistency="exact", failure_mode="closed")
        async with limiter("redis://127.0.0.1:1/0", tmp_path, blocked, free, counted, loaded=False) as made:
            refused = await made.check("vip", "u", "/r", 1, "once", NEIGHBOUR)
            assert (refused.allowed, refused.policy_id, refused.retry_after_ms) == (False, "pl_block", -1)
            allowed = [await made.check("vip", "u", "/r", 7, None, network) for network in (None, ELSEWHERE)]
            assert {(found.allowed, found.policy_id, found.degraded) for found in allowed} == {(True, "pl_free", False)}
            assert made.store_calls == 0
            other = await made.check("t", "u", "/r", 1, None, ELSEWHERE)
            assert (other.allowed, other.degraded) == (False, True)
            assert made.store_calls == 1
            with pytest.raises(errors.InvalidCommand):
                await made.check("vip", "u", "/r", -1)

    run(test())


def test_a_list_that_changes_holds_from_the_next_snapshot_on(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        counted = policy("pl_a", consistency="exact")
        async with limiter(server.url, tmp_path, counted) as made:
            assert (await made.check("t", "u", "/r")).remaining == 999
            made.use(policies(listed("deny", "pl_a")))
            assert not (await made.check("t", "u", "/r")).allowed
            made.use(policies(policy("pl_a", version=3, consistency="exact")))
            assert (await made.check("t", "u", "/r")).remaining == 998  # what was used is remembered

    run(test())
