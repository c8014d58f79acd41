"""A counter store of a test's own: a Valkey that may be frozen, emptied and killed, and limiters on it."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import time
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import redis

from compose.stack.ports import PortLeases
from compose.stack.valkey import Valkey
from limiter import Limiter
from limiter.policy.calendars import calendars_of
from limiter.policy.policies import PolicySet
from limiter.store.sharded_store import ShardedStore
from limiter.stream.charges import Charges
from limiter.stream.decisions import Recorder
from limiter.stream.lease_accounts import LeaseAccounts
from schemas.limiter import limits
from schemas.limiter.limit_policy import LimitPolicy, as_policy
from schemas.limiter.operations import OPERATIONS
from sinks.redis.user import OPERATOR, user_name
from tests.eventually import becomes, eventually
from tests.freezing import freeze

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from limiter import Decision
    from limiter.decide.durable import DurableQuotas
    from limiter.stream.lease_book import ReportSink

PATIENT_S = 60  # for a store that is there, on a loaded machine
MONTH_MS = 30 * 86_400_000  # of a window that does not end while a test runs, as one of an hour does now and then
TEN_MINUTES_MS = 600_000
YEAR_MS = 365 * 24 * 3_600_000


class Blocks:
    """A list instead of Kafka: every block is safe at once."""

    lost = failed = 0

    def __init__(self, under_way: int = 0) -> None:
        self.sent: list[tuple[int, bytes]] = []
        self.under_way = under_way

    def send(self, partition: int, block: bytes) -> bool:
        """Takes every block."""
        self.sent.append((partition, block))
        return True


class CounterServer:
    """The process of one Valkey."""

    def __init__(self, folder: Path, *options: str, of: CounterServer | None = None) -> None:
        """``of``: another server of the same password, as shards of one map have."""
        self._ports = PortLeases()  # nobody else gets it before it is listened at, nor while it is frozen
        password = secrets.token_hex(8) if of is None else of._valkey.password
        self._valkey = Valkey(folder, self._ports.take_any(), password)
        self._valkey.prepare()
        self.url = self._valkey.url
        self.process = subprocess.Popen([*self._valkey.command(), *options], stdout=subprocess.DEVNULL, cwd=folder)
        eventually(lambda: self._valkey.unhealthy() is None, what="a Valkey that answers")

    @property
    def address(self) -> str:
        """As a shard map names it: without the password."""
        return f"redis://{self._valkey.address}/0"

    def follow(self, primary: CounterServer) -> None:
        """A replica that has everything, when this returns."""
        host, port = primary._valkey.address.split(":")
        with redis.Redis.from_url(primary.url) as connection:
            connection.config_set("repl-diskless-sync-delay", 0)  # no second replica comes, for which it would wait 5 s
        with redis.Redis.from_url(self.url) as connection:
            connection.config_set("masteruser", user_name(OPERATOR))
            connection.config_set("masterauth", primary._valkey.password)
            connection.replicaof(host, port)
            becomes(lambda: connection.info("replication")["master_link_status"], "up", what="a replica in step")

    def url_of(self, user: str, *rules: str) -> str:
        """The address for a user that may do everything but what the rules take away."""
        password = secrets.token_hex(8)
        with redis.Redis.from_url(self.url) as connection:
            connection.execute_command("ACL", "SETUSER", user, "reset", "on", f">{password}", "~*", "+@all", *rules)
        return f"redis://{user}:{password}@{self._valkey.address}/0"

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It takes connections and answers nothing."""
        freeze(self.process.pid)
        try:
            yield
        finally:
            os.kill(self.process.pid, signal.SIGCONT)

    def close(self) -> None:
        """Kills it."""
        self.process.kill()
        self.process.wait()
        self._ports.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CounterServer]:
    """One for a module, which names it in its ``__all__``."""
    found = CounterServer(tmp_path_factory.mktemp("valkey"))
    yield found
    found.close()


@pytest.fixture
def emptied(server: CounterServer) -> None:
    """Nothing is counted yet."""
    with redis.Redis.from_url(server.url) as connection:
        connection.flushall()


def policy(name: str = "pl_a", version: int = 1, **changes: Any) -> LimitPolicy:
    """A leased window of a thousand for every key, changed."""
    scope = {"tenant": "*", "user": "*", "route": "*"} | changes.pop("scope", {})
    window = {"algorithm": "fixed_window", "capacity": 1_000, "window_ms": MONTH_MS, "consistency": "leased"}
    if "calendar" in changes:
        window["window_ms"] = None
    found, wrong = OPERATIONS["publish_policy"].normalize({"scope": scope} | window | changes)
    assert not wrong
    return as_policy(found, name, version)


def listed(algorithm: str, name: str = "pl_list", **changes: Any) -> LimitPolicy:
    """A policy that does not count, for every key, changed."""
    scope = {"tenant": "*", "user": "*", "route": "*"} | changes.pop("scope", {})
    found, wrong = OPERATIONS["publish_policy"].normalize({"scope": scope, "algorithm": algorithm} | changes)
    assert not wrong
    return as_policy(found, name, 1)


def policies(*found: LimitPolicy, now_s: float | None = None) -> PolicySet:
    """What a snapshot holds that was signed now, or then."""
    return PolicySet(found, 1, calendars_of(found, int(time.time() if now_s is None else now_s)))


@asynccontextmanager
async def limiter(
    url: str,
    folder: Path,
    *found: LimitPolicy,
    name: str = "g1",
    timeout_s: float = PATIENT_S,
    durable: DurableQuotas | None = None,
    reports: ReportSink | None = None,
    charged: ReportSink | None = None,
    loaded: bool = True,
) -> AsyncIterator[Limiter]:
    """A limiter of a gateway that ends without giving anything back, as a killed one does.

    A store that is there may take its time: ``hasty`` is for what is asked of one that is away.
    """
    store = ShardedStore(url, timeout_s=timeout_s)
    if loaded:
        await store.load()
    ring = folder / f"{name}.ring"
    leases = None if reports is None else LeaseAccounts(folder / f"{name}.book", ring, reports)
    charges = None if charged is None else Charges(charged)
    recorder = Recorder(name, Blocks(), ring, records=65_536, leases=leases, charges=charges)
    made = Limiter(store, recorder, name, durable)
    made.use(policies(*found))
    try:
        yield made
    finally:
        await store.close()
        recorder.close()
        if leases is not None:
            leases.shut()


@contextmanager
def hasty(gateway: Limiter) -> Iterator[None]:
    """Meanwhile the store has as long for an answer as everywhere but in tests. Both changes begin a new connection."""
    sharded: Any = gateway._store
    before_s = sharded._timeout_s

    def give(timeout_s: float) -> None:
        sharded._timeout_s = timeout_s
        for store in sharded.stores.values():
            store._timeout_s = timeout_s
            if store._line is not None:
                store._line.lose("it was as patient as before")

    give(limits.LIMIT_STORE_TIMEOUT_S)
    try:
        yield
    finally:
        give(before_s)


async def answer_of_store(gateway: Limiter, user: str, cost: int, identity: str | None = None) -> Decision:
    """The first answer that is not degraded: a store that failed is left alone for a moment."""
    async with asyncio.timeout(60):
        while True:
            decided = await gateway.check("t", user, "/r", cost, identity)
            if not decided.degraded:
                return decided
            await asyncio.sleep(0.02)
