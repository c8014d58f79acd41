"""RateLimitQuotaService over gRPC, on a real Valkey: what raw streams report, are assigned, and may cost in all."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import grpc
import pytest
import redis
from envoy.service.rate_limit_quota.v3 import rlqs_pb2, rlqs_pb2_grpc

from limiter.decide.quota_lender import QuotaLender
from limiter.edge.rlqs import RateLimitQuotaService
from limiter.policy.shard_map import ONE_SHARD
from limiter.store.shard_server import connected
from schemas.limiter import limits
from tests.worlds.limiter.counter_server import CounterServer, hasty, limiter, listed, policies, policy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

    from limiter import Limiter
    from schemas.limiter.limit_policy import LimitPolicy

pytestmark = pytest.mark.servers
CAPACITY: Final = 40
PART: Final = CAPACITY // limits.LIMIT_RLQS_SHARE  # the most that one assignment may be
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

    @property
    def store(self) -> Any:
        """The one shard."""
        sharded: Any = self.limiter._store
        return sharded.stores["main"]

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

    async def running(test: Callable[[Gateway], Awaitable[None]], *found: LimitPolicy) -> None:
        async with limiter(server.url, tmp_path, *found) as made, serving(made) as gateway:
            await test(gateway)

    return lambda *given: asyncio.run(running(*given))


EXACT: Final = policy(capacity=CAPACITY, consistency="exact")  # no leases but those of Envoys


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

    lending(test, EXACT)


async def spend_all(envoy: Proxy, told: int) -> int:
    """Spends an assignment, asks for much more, and gives the next one."""
    await envoy.report(allowed=told, denied=100)
    return await envoy.tokens()


def test_two_envoys_and_single_decisions_share_one_quota_to_the_last(lending: Any) -> None:
    async def test(gateway: Gateway) -> None:
        envoys = [gateway.proxy(), gateway.proxy()]
        told = [await spend_all(envoy, 0) for envoy in envoys]
        spent = [0, 0]
        single = 0
        while any(told):
            for at, envoy in enumerate(envoys):
                single += (await gateway.limiter.check("t", "u", "/r")).allowed
                spent[at] += told[at]
                told[at] = await spend_all(envoy, told[at])
        assert sum(spent) + single == CAPACITY
        assert min(*spent, single) > 0
        assert await gateway.remaining() == 0

    lending(test, EXACT)


def test_what_changes_is_told_without_a_report(lending: Any) -> None:
    async def test(gateway: Gateway) -> None:
        envoy = gateway.proxy()
        await gateway.limiter.check("t", "u", "/r", CAPACITY)
        assert await spend_all(envoy, 0) == 0
        gateway.limiter.use(policies(policy(version=2, capacity=CAPACITY + 3, consistency="exact")))
        while (told := await envoy.tokens()) == 0:  # a refusal is told again, every second
            pass
        assert told == 3
        gateway.limiter.use(policies())
        while (told := await envoy.tokens()) == 3:  # told again while policies were changing
            pass
        assert told == -1
        gateway.limiter.use(policies(policy(version=3, capacity=5, consistency="exact")))
        assert await envoy.tokens() == 0

    lending(test, EXACT)


BLOCKED: Final = listed("deny", scope={"network": "192.0.2.0/24"})


@pytest.mark.parametrize(
    ("found", "parts", "told"),
    [
        pytest.param([], {}, -1, id="no policy"),
        pytest.param([policy(scope={"tenant": "other"})], {}, -1, id="a policy of others"),
        pytest.param([policy(shadow=True)], {}, -1, id="only a shadow policy"),
        pytest.param([policy(capacity=4, consistency="exact")], {}, 2, id="exact: half of it is lent at once"),
        pytest.param([policy(capacity=1)], {}, 1, id="a capacity of one"),
        pytest.param([policy(), policy("pl_b", capacity=6, per=["tenant"])], {}, 3, id="two levels: the lesser"),
        pytest.param([policy(algorithm="concurrency", consistency="exact")], {}, 0, id="permits cannot be lent"),
        pytest.param([policy(window_ms=1_000)], {}, 0, id="no assignment outlives its window"),
        pytest.param([policy()], {"route": "/" + "x" * 2_000}, 0, id="what can be no key is refused"),
        pytest.param([policy()], {"remote_address": "nowhere"}, 0, id="no address is refused"),
        pytest.param([listed("deny")], {}, 0, id="a list that blocks"),
        pytest.param([listed("unlimited")], {}, -1, id="a list that allows"),
        pytest.param([BLOCKED], {"remote_address": "192.0.2.7"}, 0, id="a client of a blocked network"),
        pytest.param([BLOCKED], {"remote_address": "198.51.100.7"}, -1, id="a client of another network"),
    ],
)
def test_what_an_envoy_is_told_first(lending: Any, found: list[LimitPolicy], parts: dict[str, str], told: int) -> None:
    async def test(gateway: Gateway) -> None:
        envoy = gateway.proxy()
        await envoy.report(denied=1, **parts)
        assert await envoy.tokens() == told

    lending(test, *found)


def bad_reports() -> Iterator[Any]:
    """A good bucket, and what is wrong with the report."""
    good = rlqs_pb2.RateLimitQuotaUsageReports(domain="d")
    good.bucket_quota_usages.add(num_requests_allowed=7).bucket_id.bucket.update(USER)
    for wrong in ("no domain", "no id", "twice", "negative", "too much", "too many"):
        report = rlqs_pb2.RateLimitQuotaUsageReports()
        report.CopyFrom(good)
        added = report.bucket_quota_usages.add()
        added.bucket_id.bucket.update(USER | {"user": "other"})
        if wrong == "no domain":
            report.domain = ""
        elif wrong == "no id":
            added.ClearField("bucket_id")
        elif wrong == "twice":
            added.bucket_id.bucket.update(USER)
        elif wrong == "negative":
            added.time_elapsed.seconds = -1
        elif wrong == "too much":
            added.num_requests_denied = 2**64 - 1
        else:
            for number in range(limits.LIMIT_RLQS_BUCKETS_MAX):
                report.bucket_quota_usages.add().bucket_id.bucket.update(USER | {"user": str(number)})
        yield pytest.param(report, id=wrong)


@pytest.mark.parametrize("report", list(bad_reports()))
def test_a_malformed_report_counts_for_nothing(lending: Any, report: Any) -> None:
    async def test(gateway: Gateway) -> None:
        envoy = gateway.proxy()
        await envoy.call.write(report)
        assert await envoy.call.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert await envoy.call.details()
        assert await gateway.remaining() == CAPACITY

    lending(test, EXACT)


def test_bounds_are_kept_by_what_is_abandoned_and_refused(lending: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LIMIT_RLQS_BUCKETS_MAX", 1)
    monkeypatch.setattr(limits, "LIMIT_RLQS_STREAMS_MAX", 1)

    async def test(gateway: Gateway) -> None:
        envoy = gateway.proxy()
        assert await spend_all(envoy, 0)
        await envoy.report(allowed=3, user="one too many")
        action = await envoy.told()
        assert (action.WhichOneof("bucket_action"), action.bucket_id.bucket["user"]) == (
            "abandon_action",
            "one too many",
        )
        other = gateway.proxy()
        assert await other.call.code() == grpc.StatusCode.RESOURCE_EXHAUSTED

    lending(test, EXACT)


def test_a_bucket_of_which_nothing_is_heard_is_abandoned(lending: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(gateway: Gateway) -> None:
        envoy = gateway.proxy()
        assert await spend_all(envoy, 0)
        monkeypatch.setattr(limits, "LIMIT_RLQS_IDLE_S", 0)
        assert (await envoy.told()).WhichOneof("bucket_action") == "abandon_action"
        monkeypatch.undo()
        assert await spend_all(envoy, 0)  # and begins anew when it is heard of again

    lending(test, EXACT)


def test_what_a_lost_envoy_held_is_charged_whole_and_frees_the_rest(
    lending: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have spent all of it; a new stream begins with what is left, not with a new quota."""
    monkeypatch.setattr(limits, "LIMIT_RLQS_LEASE_MS", 1_100)
    monkeypatch.setattr(limits, "LIMIT_RLQS_MARGIN_MS", 50)

    async def test(gateway: Gateway) -> None:
        envoy = gateway.proxy()
        await envoy.report(allowed=1)
        held = await envoy.tokens()
        await envoy.report(allowed=3)
        envoy.call.cancel()
        (bucket,) = gateway.limiter.governed("t", "u", "/r").buckets
        async with asyncio.timeout(60):
            while (counted := await gateway.limiter._store.peek(bucket)).reserved:
                assert counted.used + counted.reserved >= 1 + held
                await gateway.remaining()  # a call that writes sees to leases that are over
        assert counted.used >= 1 + held
        again = gateway.proxy()
        while await spend_all(again, 0) == 0:
            pass
        assert await gateway.remaining() < CAPACITY - 1 - held

    lending(test, EXACT)


def test_policies_that_are_too_old_lend_nothing(lending: Any) -> None:
    closed = policy(capacity=CAPACITY, consistency="exact", failure_mode="closed")

    async def test(gateway: Gateway) -> None:
        envoy = gateway.proxy()
        held = await spend_all(envoy, 0)
        gateway.limiter.lapse()
        assert await spend_all(envoy, held) == 0
        gateway.limiter.use(policies(closed))
        while (told := await envoy.tokens()) == 0:
            pass
        assert told == CAPACITY - held
        assert await gateway.remaining() == 0

    lending(test, closed)


def test_a_new_primary_is_told_what_is_lent(
    lending: Any, server: CounterServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that had heard of nothing: until the Envoy says what it spent, nobody else has it."""
    monkeypatch.setattr(limits, "LIMIT_LEASE_MS", 600_000)  # for so long it learns
    monkeypatch.setattr(limits, "LIMIT_SHARD_CALL_TIMEOUT_S", 60)  # it is there, however slow this machine is
    new = CounterServer(tmp_path / "new", of=server)
    with connected(new.url) as promoted:
        promoted.become_primary()
        promoted.raise_epoch(1)
    after = ONE_SHARD.with_reserved({"main": 1}).with_primary("main", new.address, int(time.time()))

    async def test(gateway: Gateway) -> None:
        envoy, other = gateway.proxy(), gateway.proxy()
        held = await spend_all(envoy, 0)
        (bucket,) = gateway.limiter.governed("t", "u", "/r").buckets
        sharded: Any = gateway.limiter._store
        sharded.use(after)
        async with asyncio.timeout(60):
            while not (counted := await sharded.peek(bucket)).reserved:  # noqa: ASYNC110 - another process' answer
                await asyncio.sleep(0.01)
        assert (counted.used, counted.reserved) == (0, held)
        assert await spend_all(other, 0) == 0  # it may not know yet of all that is lent
        assert await spend_all(envoy, held) == 0
        counted = await sharded.peek(bucket)
        assert (counted.used, counted.reserved) == (held, 0)
        gateway.store.learning_until_ns = 0
        while (told := await other.tokens()) == 0:
            pass
        assert 0 < told <= CAPACITY - held

    try:
        lending(test, policy(capacity=CAPACITY, consistency="exact", failure_mode="stale"))
    finally:
        new.close()


@pytest.mark.parametrize(("mode", "told"), [("closed", 0), ("stale", 0), ("open", PART)])
def test_without_the_store_the_failure_mode_decides_and_nothing_is_forgotten(
    lending: Any, server: CounterServer, monkeypatch: pytest.MonkeyPatch, mode: str, told: int
) -> None:
    monkeypatch.setattr(limits, "LIMIT_STORE_RETRY_S", 600)

    async def test(gateway: Gateway) -> None:
        holder, late = gateway.proxy(), gateway.proxy()
        await holder.report(denied=1, user="holder")
        assert await holder.tokens()
        with server.frozen(), hasty(gateway.limiter):
            assert (await gateway.limiter.check("t", "other", "/r")).degraded  # no call is under way when it is back
            await holder.report(allowed=1, user="holder")  # goes on with what it has, and is told nothing
            await late.report(allowed=2, denied=98)
            assert await late.tokens() == told
        gateway.store._shut_until = 0
        if told:
            await late.report(allowed=told)
        while (lent := await late.tokens()) == 0:  # a refusal is looked at again without a report
            pass
        assert lent == PART
        left = await gateway.remaining()
        assert left == CAPACITY - 2 - PART  # the two that Envoy let through by its own rule are charged now

    lending(test, policy(capacity=CAPACITY, failure_mode=mode))
