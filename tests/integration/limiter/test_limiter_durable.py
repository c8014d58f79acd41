"""Durable quotas from gateways to the owner and back, on real Kafka, Postgres and Valkey: killed, flushed, away."""

from __future__ import annotations

import asyncio
import functools
import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
import redis
from structlog.testing import capture_logs

from compose.services.owner_quotas import OwnerQuotas
from limiter.decide.durable import Answer, Asked, Left, OwnerUnavailable
from limiter.edge.frame_server import FrameServer
from limiter.frames import frames
from limiter.frames.frame_client import FrameClient
from limiter.frames.frame_client_async import AsyncFrameClient
from limiter.frames.frame_requests import GatewayUnavailable
from limiter.policy import keys
from schemas import errors
from schemas.limiter import topics
from sinks.kafka.connection import KafkaConnection
from sinks.kafka.topics import ensure_topics
from sinks.postgres.migrate import migrate
from tests.eventually import becomes, patient
from tests.worlds.limiter.counter_server import CounterServer, limiter, policy
from tests.worlds.limiter.quota_owner import owner_process
from tests.worlds.limiter.quota_world import LONG_WINDOW_MS, durable, put_policies
from tests.worlds.payments.simulator_process import free_port
from tests.worlds.senders import signing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
    from pathlib import Path

    from limiter import Limiter
    from schemas.limiter.limit_policy import LimitPolicy
    from tests.servers import World

pytestmark = [pytest.mark.servers]
PATIENT_S = 60.0  # for an answer that has to come
HASTY_S = 1.0  # for one that will not
WIDE = policy("pl_wide", consistency="exact", per=["tenant"], capacity=1_000, window_ms=LONG_WINDOW_MS)


def awaited(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test on an event loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


class World:
    """One database with an owner's tables, and a counter store."""

    def __init__(self, stack: World, store: CounterServer, database: str) -> None:
        addresses = stack.addresses
        self.kafka = signing(addresses.kafka)
        self.store = store
        self.superuser_dsn = urlunsplit(urlsplit(addresses.postgres_superuser_dsn)._replace(path=f"/{database}"))
        owner_dsn = addresses.postgres_dsns["millrace_limiter_owner"]
        self.owner_dsn = urlunsplit(urlsplit(owner_dsn)._replace(path=f"/{database}"))

    def policies(self, *found: LimitPolicy) -> None:
        put_policies(self.superuser_dsn, *found)

    def charged(self, policy_id: str) -> int:
        """What Postgres knows."""
        with psycopg.connect(self.superuser_dsn) as connection:
            query = "select coalesce(sum(used), 0)::int from quota_counter where policy_id = %s"
            row = connection.execute(query, (policy_id,)).fetchone()
        assert row is not None
        return int(row[0])

    def claims(self, owner: Any) -> int:
        """How many partitions the process of an owner has taken."""
        with psycopg.connect(self.superuser_dsn) as connection:
            query = "select count(*) from partition_owner where owner_id = %s"
            row = connection.execute(query, (f"owner-{owner.pid}",)).fetchone()
        assert row is not None
        return int(row[0])

    def owner(self, fail_point: str = "") -> Any:
        return owner_process(self.kafka, self.owner_dsn, fail_point)


@pytest.fixture(scope="module")
def world(stack: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    database = f"quotas_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(stack.addresses.postgres_superuser_dsn, autocommit=True) as connection:
        connection.execute(f"create database {database}".encode())
    store = CounterServer(tmp_path_factory.mktemp("counters"))
    found = World(stack, store, database)
    migrate(found.superuser_dsn, stack.settings.role_passwords())
    ensure_topics(found.kafka)
    yield found
    store.close()
    with psycopg.connect(stack.addresses.postgres_superuser_dsn, autocommit=True) as connection:
        connection.execute(f"drop database {database} with (force)".encode())


@asynccontextmanager
async def gateway(
    world: World, folder: Path, *found: LimitPolicy, name: str = "g1", timeout_s: float = PATIENT_S, kafka: Any = None
) -> AsyncIterator[Limiter]:
    quotas = OwnerQuotas(kafka or world.kafka, f"test-{uuid.uuid4().hex[:6]}", len(name), timeout_s=timeout_s)
    try:
        async with limiter(world.store.url, folder, *found, name=name, timeout_s=PATIENT_S, durable=quotas) as made:
            yield made
    finally:
        await quotas.close()


def narrow(**changes: Any) -> LimitPolicy:
    return durable(f"pl_{uuid.uuid4().hex[:12]}", **changes)


async def used_at_store(gateway_: Limiter, tenant: str) -> int:
    state = gateway_._keys[tenant, "u", "/r"]
    (bucket,) = (b for b in state.buckets if b.id_ == WIDE.policy_id)
    return (await gateway_._store.peek(bucket)).used


@awaited
async def test_an_owner_that_dies_between_its_commit_and_its_answer_has_charged_once(
    world: World, tmp_path: Path
) -> None:
    """The first try is refused by the failure mode; its retry, at another gateway, hears that it was allowed."""
    monthly, tenant = narrow(capacity=5), uuid.uuid4().hex
    world.policies(monthly)
    with world.owner("after_commit_before_publish") as doomed:
        becomes(lambda: world.claims(doomed), topics.PARTITIONS, 60)  # however long its start takes
        async with gateway(world, tmp_path, WIDE, monthly, timeout_s=10) as one:
            first = await one.check(tenant, "u", "/r", 3, "once")
            assert doomed.wait(patient(60)) != 0
            assert (first.allowed, first.degraded) == (False, True)
            assert await used_at_store(one, tenant) == 0  # all or nothing, as far as the gateway can know
    assert world.charged(monthly.policy_id) == 3
    with world.owner():
        async with gateway(world, tmp_path, WIDE, monthly, name="g22") as two:
            for duplicate in (True, True):
                again = await two.check(tenant, "u", "/r", 3, "once")
                assert (again.allowed, again.degraded, again.duplicate) == (True, False, duplicate)
            assert await used_at_store(two, tenant) == 3
    assert world.charged(monthly.policy_id) == 3


@pytest.fixture(scope="module")
def serving(world: World) -> Iterator[None]:
    """An owner from here on; the test that kills owners of its own comes before."""
    with world.owner():
        yield


@pytest.mark.usefixtures("serving")
@awaited
async def test_gateways_share_one_quota_that_outlives_the_counter_store(world: World, tmp_path: Path) -> None:
    """Sixty identities, each through both gateways: 25 fit, once. The store is emptied, and nothing is lost."""
    monthly = narrow(capacity=25)
    world.policies(monthly)
    async with (
        gateway(world, tmp_path, monthly, name="g1") as one,
        gateway(world, tmp_path, monthly, name="g22") as two,
    ):
        asked = [g.check("t", "u", "/r", 1, f"r{n}") for n in range(20) for g in (one, two)]
        first = await asyncio.gather(*asked)
        assert {d.allowed for d in first} == {True}
        assert sum(d.duplicate for d in first) == 20
        assert world.charged(monthly.policy_id) == 20
        with redis.Redis.from_url(world.store.url) as server:
            server.flushall()
        rest = await asyncio.gather(*(one.check("t", "u", "/r", 1) for _ in range(40)))
        assert sum(d.allowed for d in rest) == 5
        assert world.charged(monthly.policy_id) == 25
        again = await two.check("t", "u", "/r", 1, "r3")
        assert (again.allowed, again.duplicate, again.degraded) == (True, True, False)
        with pytest.raises(errors.KeyReused):
            await one.check("t", "u", "/r", 2, "r3")
        refused = next(d for d in rest if not d.allowed and not d.approximate)
        assert refused.retry_after_ms > 1_000
        assert (refused.policy_id, refused.policy_version, refused.remaining) == (monthly.policy_id, 1, 0)


@pytest.mark.usefixtures("serving")
@awaited
async def test_a_durable_refusal_leaves_no_charge_at_the_store(world: World, tmp_path: Path) -> None:
    monthly = narrow(capacity=5)
    world.policies(monthly)
    async with gateway(world, tmp_path, WIDE, monthly) as one:
        tenant = uuid.uuid4().hex
        asked = [one.check(tenant, "u", "/r", 1, f"r{n}") for n in range(30)]
        assert sum(d.allowed for d in await asyncio.gather(*asked)) == 5
        assert world.charged(monthly.policy_id) == 5
        assert await used_at_store(one, tenant) == 5


@pytest.mark.usefixtures("serving")
@awaited
async def test_what_was_consumed_is_given_back_once(world: World, tmp_path: Path) -> None:
    monthly = narrow(capacity=5)
    world.policies(monthly)
    quotas = OwnerQuotas(world.kafka, "refunds", 1, timeout_s=PATIENT_S)
    async with limiter(world.store.url, tmp_path, monthly, durable=quotas) as one:
        assert (await one.check("t", "u", "/r", 5, "a")).allowed
        consumed = keys.identity_digest("t:u:/r", b"a")
        assert await quotas.refund("t", consumed) == 5
        assert await quotas.refund("t", keys.identity_digest("t:u:/r", b"b")) == 0
        assert world.charged(monthly.policy_id) == 0
        assert (await one.check("t", "u", "/r", 5, "c")).allowed
        await quotas.refund("t", consumed)
        assert world.charged(monthly.policy_id) == 5
    await quotas.close()


@pytest.mark.usefixtures("serving")
@awaited
async def test_a_caller_gives_back_what_its_request_consumed_at_every_level(world: World, tmp_path: Path) -> None:
    """Once, by the key and the identity that consumed; what is no such request gives nothing back and changes nothing."""
    monthly = narrow(capacity=5)
    world.policies(monthly)
    async with gateway(world, tmp_path, monthly, WIDE) as one:
        tenant = f"t{uuid.uuid4().hex[:8]}"
        assert (await one.check(tenant, "u", "/r", 5, "a")).allowed
        assert not (await one.check(tenant, "u", "/r", 1, "b")).allowed
        for others in ((tenant, "u", "/r", "b"), (tenant, "v", "/r", "a"), (f"{tenant}x", "u", "/r", "a")):
            assert await one.refund(*others) == 0
        assert (world.charged(monthly.policy_id), await used_at_store(one, tenant)) == (5, 5)
        assert await asyncio.gather(*(one.refund(tenant, "u", "/r", "a") for _ in range(3))) == [5] * 3
        assert (world.charged(monthly.policy_id), await used_at_store(one, tenant)) == (0, 0)
        assert (await one.check(tenant, "u", "/r", 5, "a")).duplicate
        assert (await one.check(tenant, "u", "/r", 4, "c")).allowed  # the refusal of before is not repeated
        assert await one.refund(tenant, "u", "/r", "a") == 5
        assert (world.charged(monthly.policy_id), await used_at_store(one, tenant)) == (4, 4)
        with pytest.raises(errors.InvalidCommand):
            await one.refund(tenant, "u", "/r", "")
        with pytest.raises(errors.InvalidCommand):
            await one.refund("", "u", "/r", "a")


@pytest.mark.usefixtures("serving")
@awaited
async def test_frames_give_back_what_they_consumed(world: World, tmp_path: Path) -> None:
    monthly = narrow(capacity=5, scope={"tenant": "frames"})
    world.policies(monthly)
    identity, socket = uuid.uuid4().bytes, tmp_path / "s"
    async with gateway(world, tmp_path, monthly) as one:
        server = FrameServer(one)
        await server.serve_unix(socket)
        async with AsyncFrameClient(str(socket), timeout_s=PATIENT_S) as client:
            assert (await client.check("frames", "u", "/r", 3, identity)).allowed
            assert await client.refund("frames", "u", "/r", uuid.uuid4().bytes) == 0
            assert await client.refund("frames", "u", "/r", identity) == 3
            assert world.charged(monthly.policy_id) == 0
            for place in (("frames", "u", "/r", frames.NO_IDENTITY), ("nobody", "u", "/r", identity)):
                with pytest.raises(errors.InvalidCommand):
                    await client.refund(*place)
            blocking = FrameClient(str(socket), timeout_s=PATIENT_S)
            assert await asyncio.to_thread(blocking.refund, "frames", "u", "/r", identity) == 3
            blocking.close()
        await server.close()
        assert world.charged(monthly.policy_id) == 0


@awaited
async def test_without_an_owner_nobody_knows_what_was_given_back(world: World, tmp_path: Path) -> None:
    monthly = narrow()
    socket = tmp_path / "s"
    for durable_ in (None, Unanswered()):
        async with limiter(world.store.url, tmp_path, monthly, timeout_s=PATIENT_S, durable=durable_) as one:
            with pytest.raises(OwnerUnavailable):
                await one.refund("t", "u", "/r", "a")
            server = FrameServer(one)
            await server.serve_unix(socket)
            async with AsyncFrameClient(str(socket), timeout_s=PATIENT_S) as client:
                with pytest.raises(GatewayUnavailable):
                    await client.refund("t", "u", "/r", uuid.uuid4().bytes)
            await server.close()


@awaited
async def test_without_kafka_the_failure_mode_decides(world: World, tmp_path: Path) -> None:
    """What the store was charged is kept by a request that passed, and given back by one that did not."""
    nowhere = signing(KafkaConnection(bootstrap=f"127.0.0.1:{free_port()}"))
    outcomes = {"closed": (False, 0), "open": (True, 2), "stale": (False, 0)}
    tenants = {mode: uuid.uuid4().hex for mode in outcomes}
    found = [narrow(failure_mode=mode, scope={"tenant": tenant}) for mode, tenant in tenants.items()]
    lenient = policy("pl_wide", consistency="exact", per=["tenant"], failure_mode="open")
    async with gateway(world, tmp_path, lenient, *found, timeout_s=HASTY_S, kafka=nowhere) as one:
        for mode, (allowed, kept) in outcomes.items():
            decided = await one.check(tenants[mode], "u", "/r", 2)
            assert (decided.allowed, decided.degraded) == (allowed, True)
            assert await used_at_store(one, tenants[mode]) == kept
        assert one.degraded == len(outcomes)


@awaited
async def test_a_gateway_without_a_way_to_the_owners_says_so(world: World, tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with limiter(world.store.url, tmp_path, narrow()) as one:
            decided = await one.check("t", "u", "/r")
    assert (decided.allowed, decided.degraded) == (False, True)
    assert [entry["event"] for entry in logs] == ["durable_quotas_not_offered"]


class Unanswered:
    """Owners that never answer in time, and count how often they were asked."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.asked: list[Asked] = []
        self.answer = answer

    def prepare(self) -> None:
        """There is nothing to connect to."""

    async def consume(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        if self.answer is None:
            raise OwnerUnavailable
        return self.answer

    async def refund(self, tenant: str, consumed: str) -> int:
        raise OwnerUnavailable


@awaited
async def test_a_retry_without_an_owner_does_not_give_back_what_was_used(world: World, tmp_path: Path) -> None:
    """The first try was allowed; its retry elsewhere is refused by the failure mode, and both levels stay charged."""
    monthly, tenant = narrow(), uuid.uuid4().hex
    answer = Answer(allowed=True, duplicate=False, levels={monthly.policy_id: left(remaining=5)})
    async with limiter(world.store.url, tmp_path, WIDE, monthly, durable=Unanswered(answer)) as one:
        assert (await one.check(tenant, "u", "/r", 3, "used")).allowed
        async with limiter(world.store.url, tmp_path, WIDE, monthly, name="g2", durable=Unanswered()) as two:
            retried = await two.check(tenant, "u", "/r", 3, "used")
            assert (retried.allowed, retried.degraded) == (False, True)
            assert await used_at_store(two, tenant) == 3
            refused = await two.check(tenant, "u", "/r", 2, "unused")
            assert (refused.allowed, refused.degraded) == (False, True)
            assert await used_at_store(two, tenant) == 3


@awaited
async def test_a_shadow_policy_decides_nothing_even_when_its_owner_is_away(world: World, tmp_path: Path) -> None:
    async with limiter(world.store.url, tmp_path, WIDE, narrow(shadow=True), durable=Unanswered()) as one:
        decided = await one.check(uuid.uuid4().hex, "u", "/r", 2)
        assert (decided.allowed, decided.degraded, decided.policy_id) == (True, False, WIDE.policy_id)


@awaited
async def test_what_a_durable_policy_in_shadow_mode_would_have_refused_is_counted(world: World, tmp_path: Path) -> None:
    owners = Unanswered()
    async with limiter(world.store.url, tmp_path, WIDE, narrow(shadow=True), durable=owners) as one:
        tenant = uuid.uuid4().hex
        await one.check(tenant, "u", "/r", 2)
        level = owners.asked[0].levels[0][0]
        for duplicate in (False, True):
            owners.answer = Answer(allowed=True, duplicate=duplicate, levels={level: left(retry_us=1_000)})
            assert (await one.check(tenant, "u", "/r", 2, f"r{duplicate}")).allowed
        assert one._recorder.outcomes.refused_in_shadow == {level: 1}  # what an owner repeats was counted


@awaited
async def test_a_refusal_is_repeated_without_asking_but_not_to_an_identity_in_doubt(
    world: World, tmp_path: Path
) -> None:
    """Over its quota a tenant is no load on Kafka; what may have been charged is always asked about."""
    owners = Unanswered()
    async with limiter(world.store.url, tmp_path, narrow(capacity=10), durable=owners) as one:
        await one.check("t", "u", "/r", 5, "doubtful")
        level = owners.asked[0].levels[0][0]
        owners.answer = Answer(allowed=False, duplicate=False, levels={level: left(retry_us=3_600_000_000)})
        decided = [await one.check("t", "u", "/r", cost, f"r{cost}") for cost in (5, 5, 6, 4)]
        assert [d.allowed for d in decided] == [False] * 4
        assert [asked.cost for asked in owners.asked] == [5, 5, 4]  # a lower cost may fit where a higher one did not
        await one.check("t", "u", "/r", 5, "doubtful")
        assert [asked.identity for asked in owners.asked].count(owners.asked[0].identity) == 2


def left(**changes: int) -> Any:
    return Left(**{"policy_version": 1, "remaining": 0, "reset_us": 1, "retry_us": 0} | changes)
