"""A shard map on a real Postgres and two real stores that are alike: for tests."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
import psycopg
import pytest
import redis
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import SecretStr

from limiter.policy.follower import SnapshotFollower
from limiter.policy.published import PublishedOverHttp
from limiter.policy.publisher import publish
from limiter.policy.snapshot import key_id
from limiter.store.shard_changes import ShardChanges
from tests.integration.operator_shell import Operator
from tests.worlds.limiter.counter_server import CounterServer
from tests.worlds.payments.settlement_world import SettlementWorld, settlement_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from limiter import Limiter
    from schemas.limiter.limit_policy import LimitPolicy
    from tests.servers import World

PATIENT_S: Final = 60
KEY: Final = Ed25519PrivateKey.generate()
TENANTS: Final = [f"t{n}" for n in range(12)]


class ShardWorld:
    """A database with a map, two stores that are alike, and how changes reach gateways."""

    def __init__(self, stack: World, world: SettlementWorld, one: CounterServer, two: CounterServer) -> None:
        self.stack, self.world, self.one, self.two = stack, world, one, two
        self.settings = {"MILLRACE_POSTGRES_DSN": world.superuser_dsn, "MILLRACE_REDIS_URL": one.url}
        self.dsns = (
            stack.settings.model_copy(update={"postgres_dsn": SecretStr(world.superuser_dsn)}).addresses().postgres_dsns
        )

    @contextmanager
    def connection(self, role: str) -> Iterator[psycopg.Connection]:
        with psycopg.connect(self.dsns[role], autocommit=True) as connection:
            yield connection

    @contextmanager
    def changes(self) -> Iterator[ShardChanges]:
        with self.connection("millrace_operator") as connection:
            yield ShardChanges(connection, self.one.url, "ann")

    def published(self) -> bytes:
        """The newest signed document, as the process beside the owners makes it."""
        with self.connection("millrace_limiter_owner") as connection:
            publish(connection, KEY)
        ((document,),) = self.world.sql("select document from policy_snapshot order by revision desc limit 1")
        return bytes(document)

    def in_force(self, found: LimitPolicy) -> None:
        """As an owner publishes it."""
        values = (found.policy_id, json.dumps(msgspec.to_builtins(found)))
        self.world.sql(
            "insert into policy (policy_id, publisher, scope, algorithm, capacity, version, active_version, body, partition,"
            " created_at, updated_at) values (%s, 'p', '{}', 'fixed_window', 1, 1, 1, %s, 0, now(), now())",
            *values,
        )

    def told(self, gateway: Limiter, folder: Path) -> None:
        """The gateway takes what is published."""
        store: Any = gateway._store
        keys = {key_id(KEY.public_key()): KEY.public_key()}
        nowhere = PublishedOverHttp("http://127.0.0.1:1", str)
        taking = SnapshotFollower(nowhere, lambda: keys, lambda _: None, folder / "r", store.use)
        taking.take(self.published())

    def cli(self, *words: str) -> tuple[int, str]:
        done = Operator.of(self.stack.settings).run("limiter", "shards", *words, settings=self.settings)
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[CounterServer, CounterServer]]:
    one = CounterServer(tmp_path_factory.mktemp("one"))
    two = CounterServer(tmp_path_factory.mktemp("two"), of=one)
    yield one, two
    for server in (one, two):
        server.close()


@pytest.fixture
def shards(stack: World, servers: tuple[CounterServer, CounterServer]) -> Iterator[ShardWorld]:
    for server in servers:
        with redis.Redis.from_url(server.url) as connection:
            connection.flushall()
    with settlement_world(stack.settings) as world:
        yield ShardWorld(stack, world, *servers)
