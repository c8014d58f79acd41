"""Counter stores as operators have them: without functions, with users that may do little, that evict, that are full."""

from __future__ import annotations

import asyncio
import re
from importlib import resources
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import redis
from prometheus_client import CollectorRegistry

from compose.services.limiter_gateway import _why_not_ready
from limiter.edge.metrics import ShardMetrics
from limiter.policy.level import level_of
from limiter.store.sharded_store import ShardedStore
from limiter.store.store import CounterStore, StoreUnavailable
from limiter.store.store_script import LIBRARY
from limiter.store.stored_bucket import bucket_of
from tests.worlds.limiter.counter_server import CounterServer, limiter, policy, server
from tests.worlds.limiter.store_proxy import StoreProxy

if TYPE_CHECKING:
    from pathlib import Path

    from limiter import Limiter

pytestmark = pytest.mark.servers
__all__ = ["server"]  # the fixtures of this module
EXACT = policy(capacity=10, consistency="exact")
PATIENT_S = 60  # a busy machine must not look like a store that is away


@pytest.fixture(autouse=True)
def _empty(server: CounterServer) -> None:
    with redis.Redis.from_url(server.url) as connection:
        connection.flushall()
        connection.function_flush("SYNC")
        connection.script_flush()


async def admitted(gateway: Limiter, count: int) -> int:
    """Of so many at once; none of them without the store."""
    decided = await asyncio.gather(*(gateway.check("t", "u", "/r") for _ in range(count)))
    assert not any(d.degraded for d in decided)
    return sum(d.allowed for d in decided)


@pytest.mark.parametrize("rules", [["-function"], ["-fcall"], ["-function", "-fcall"]], ids=str)
def test_a_user_without_functions_shares_the_counters(server: CounterServer, tmp_path: Path, rules: list[str]) -> None:
    """The script is taken by itself; another gateway that has functions sees the same usage."""

    async def test() -> None:
        url = server.url_of("bare", *rules)
        async with limiter(url, tmp_path, EXACT, timeout_s=PATIENT_S) as bare:
            assert await admitted(bare, 4) == 4
            async with limiter(server.url, tmp_path, EXACT, name="g2", timeout_s=PATIENT_S) as other:
                assert (await bare.check("t", "u", "/r", 1, "r")).allowed
                assert (await other.check("t", "u", "/r", 1, "r")).duplicate
                assert await admitted(other, 20) == 5
            assert await admitted(bare, 20) == 0

    asyncio.run(test())


def test_a_server_that_knows_no_functions(tmp_path: Path) -> None:
    """As servers older than functions are: both commands are unknown, to a caller that never loaded anything too."""

    async def test(url: str) -> None:
        async with limiter(url, tmp_path, EXACT, timeout_s=PATIENT_S) as gateway:
            assert await admitted(gateway, 20) == 10
            (bucket,) = gateway._buckets.values()
            reader = CounterStore(url, timeout_s=PATIENT_S)
            peeks = await asyncio.gather(*(reader.peek(bucket) for _ in range(5)))
            assert [counted.used for counted in peeks] == [10] * 5
            await reader.close()

    older = CounterServer(tmp_path, "--rename-command", "FUNCTION", "", "--rename-command", "FCALL", "")
    try:
        asyncio.run(test(older.url))
    finally:
        older.close()


def test_gateways_of_two_releases_keep_their_own_functions_on_every_shard(tmp_path: Path) -> None:
    """The other release replaces what has its name, at its start; ours is loaded where it is missing, and only there."""
    text = (resources.files("sinks.redis") / "scripts" / "limiter" / "rl1.lua").read_text()
    older = text.replace("{allowed and OK or DENIED}", "{DENIED}")
    assert older != text

    async def test(urls: list[str]) -> None:
        for url in urls:  # the second one is no configured store of anybody: nobody called load there
            with redis.Redis.from_url(url) as connection:
                connection.function_load(older, replace=True)
                async with limiter(url, tmp_path, EXACT, timeout_s=PATIENT_S, loaded=url == urls[0]) as gateway:
                    assert await admitted(gateway, 4) == 4
                    connection.function_load(older, replace=True)  # an older gateway starts
                    assert await admitted(gateway, 20) == 6
                libraries = {entry[b"library_name"].decode() for entry in map(as_dict, connection.function_list())}
                assert libraries == {"rl1", LIBRARY.decode()}

    servers = [CounterServer(tmp_path / name) for name in ("one", "two") if (tmp_path / name).mkdir() is None]
    try:
        asyncio.run(test([server.url for server in servers]))
    finally:
        for server in servers:
            server.close()


def as_dict(row: list[Any]) -> dict[bytes, Any]:
    return dict(zip(row[::2], row[1::2], strict=True))


def test_a_script_that_was_flushed_is_loaded_again(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        url = server.url_of("bare", "-function")
        async with limiter(url, tmp_path, EXACT, timeout_s=PATIENT_S) as gateway:
            assert await admitted(gateway, 4) == 4
            with redis.Redis.from_url(server.url) as connection:
                connection.script_flush()
            assert await admitted(gateway, 20) == 6

    asyncio.run(test())


def test_a_user_that_may_run_nothing_is_an_outage(server: CounterServer) -> None:
    async def test() -> None:
        store = CounterStore(server.url_of("nobody", "-@scripting"), timeout_s=PATIENT_S)
        await store.load()  # others may load what is called
        bucket = bucket_of(level_of(EXACT, {}), "u")
        with pytest.raises(StoreUnavailable) as refused:
            await store.peek(bucket)
        assert "NOPERM" in str(refused.value.context)
        await store.close()

    asyncio.run(test())


async def unfit(url: str) -> str | None:
    """What a gateway that connects now says of the server."""
    store = CounterStore(url, timeout_s=PATIENT_S)
    await store.load()
    await store.close()
    return store.unfit


def test_a_server_that_evicts_is_not_trusted_with_counters(server: CounterServer) -> None:
    with redis.Redis.from_url(server.url) as connection:
        connection.config_set("maxmemory-policy", "volatile-lru")
        try:
            said = asyncio.run(unfit(server.url))
        finally:
            connection.config_set("maxmemory-policy", "noeviction")
    assert said == "the counter store evicts counters (maxmemory-policy volatile-lru): set maxmemory-policy noeviction"
    assert asyncio.run(unfit(server.url)) is None


def test_a_server_that_does_not_tell_whether_it_evicts_is_not_trusted(server: CounterServer) -> None:
    said = asyncio.run(unfit(server.url_of("blind", "-info")))
    assert said == "the counter store does not tell its eviction policy: allow its user INFO"


def test_a_clock_that_is_wrong_is_told_of(server: CounterServer) -> None:
    """With every connection, and at every look after that: never more than the difference is."""
    proxy, registry = StoreProxy(server.url), CollectorRegistry()

    def told_s() -> float | None:
        return registry.get_sample_value("millrace_limiter_clock_skew_seconds", {"shard": "main"})

    async def test() -> None:
        async with proxy.url() as url:
            store = ShardedStore(url, timeout_s=PATIENT_S)
            ShardMetrics(store, registry)
            assert told_s() is None
            proxy.clock_ahead_s = -600
            await store.load()
            at_first = told_s()
            proxy.clock_ahead_s = 600
            await store.compare_clocks()
            after = told_s()
            lacks = _why_not_ready(store, SimpleNamespace(is_ready=True), asyncio.Event())  # type: ignore[arg-type] # all it asks
            proxy.clock_ahead_s = 0
            await store.compare_clocks()
            in_the_end = told_s()
            assert store.clock_off is None
            await store.close()
        assert at_first is not None
        assert after is not None
        assert 600 - PATIENT_S < at_first <= 600
        assert -600 <= after < PATIENT_S - 600
        assert in_the_end == 0
        assert lacks is not None, "its gateway is not ready"
        assert re.fullmatch(r"the clock of this gateway is -\d+ s off that of shard main: set it", lacks)

    asyncio.run(test())
