"""Homes on the real server: each post once, never more than they hold, and nothing falls between a build and a push."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis

from schemas.social import limits
from sinks.redis.homes import Homes, HomeWriter
from tests.eventually import eventually, patient
from tests.worlds.limiter.counter_server import CounterServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sinks.redis.homes import Place
    from tests.servers import World

    Test = Callable[[Homes, HomeWriter, str], Awaitable[None]]

pytestmark = pytest.mark.servers
_PATIENCE_MS = 60_000
NEWEST = (253_402_300_799_000_000, "\x7f")


def run(stack: World, test: Test) -> None:
    """A reader and fan-out, and a user whom nobody knows."""
    run_at(stack.addresses.redis_url, test)


def run_at(url: str, test: Test) -> None:
    """The same, wherever it is."""

    async def both() -> None:
        homes, writer = Homes(url, _PATIENCE_MS), HomeWriter(url, _PATIENCE_MS)
        try:
            await asyncio.wait_for(test(homes, writer, f"u_{uuid.uuid4().hex}"), patient(60))
        finally:
            await homes.close()
            writer.close()

    asyncio.run(both())


async def built(homes: Homes, user: str, *posts: Place) -> None:
    await homes.finish(user, await homes.begin(user), posts)


def test_what_is_pushed_while_a_home_is_built_is_in_it(stack: World) -> None:
    """Trap: read from Postgres, pushed by fan-out, written by the reader, in this order."""

    async def test(homes: Homes, writer: HomeWriter, user: str) -> None:
        writer.push([([user], [(1, "po_lost")])])  # nobody reads it: there is no home
        assert await homes.read(user, NEWEST, 10) is None
        token = await homes.begin(user)
        writer.push([([user], [(3, "po_3")])])
        assert await homes.read(user, NEWEST, 10) is None
        await homes.finish(user, token, [(2, "po_2")])
        assert await homes.read(user, NEWEST, 10) == [(3, "po_3"), (2, "po_2")]
        assert await homes.begin(user) == 0  # complete: there is nothing to build

    run(stack, test)


def test_a_build_that_is_overtaken_or_whose_home_was_dropped_writes_nothing(stack: World) -> None:
    async def test(homes: Homes, writer: HomeWriter, user: str) -> None:
        first = await homes.begin(user)
        second = await homes.begin(user)
        await homes.finish(user, first, [(1, "po_old")])
        assert await homes.read(user, NEWEST, 10) is None
        writer.drop([user])
        await homes.finish(user, second, [(1, "po_old")])
        assert await homes.read(user, NEWEST, 10) is None
        await built(homes, user, (2, "po_2"))
        assert await homes.read(user, NEWEST, 10) == [(2, "po_2")]

    run(stack, test)


def test_a_home_has_each_post_once_in_the_order_of_their_places_and_no_more_than_it_holds(stack: World) -> None:
    """Several of one microsecond, around which a page may begin."""

    async def test(homes: Homes, writer: HomeWriter, user: str) -> None:
        await built(homes, user)
        same = [(limits.HOME_POSTS_MAX + 5, f"po_{n}") for n in range(4)]
        more = [(n + 1, f"po_{n:05}x") for n in range(limits.HOME_POSTS_MAX)]
        for _ in range(2):
            writer.push([([user, "u_nobody"], [*more, *same])])
        found = await homes.read(user, NEWEST, limits.HOME_POSTS_MAX + 10)
        assert found == sorted([*same, *more[4:]], reverse=True)
        assert await homes.read(user, same[2], 3) == [same[1], same[0], more[-1]]
        writer.forget([user], "po_3")
        assert (await homes.read(user, NEWEST, 1)) == [same[2]]

    run(stack, test)


def test_what_is_too_much_for_one_call_or_one_packet_arrives_whole(
    stack: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each author's posts in its followers' homes, and in no others."""
    monkeypatch.setattr(limits, "HOME_DELIVERIES_AT_ONCE", 4)
    monkeypatch.setattr(limits, "HOME_DELIVERIES_SENT_MAX", 10)

    async def test(homes: Homes, writer: HomeWriter, user: str) -> None:
        fans = {author: [f"{user}{author}{n}" for n in range(5)] for author in "abc"}
        for fan in (fan for each in fans.values() for fan in each):
            await built(homes, fan)
        posts = {author: [(n, f"po_{author}{n}") for n in range(3)] for author in fans}
        writer.push([(fans[author], posts[author]) for author in fans] + [(["u_nobody"], [])])
        for author, each in fans.items():
            for fan in each:
                assert await homes.read(fan, NEWEST, 10) == posts[author][::-1]

    run(stack, test)


def test_a_home_of_another_life_of_the_server_is_none(stack: World) -> None:
    """A server that comes back with an older copy has lost pushes: its homes are built anew."""

    async def test(homes: Homes, writer: HomeWriter, user: str) -> None:
        await built(homes, user, (1, "po_1"))
        client = redis.Redis.from_url(stack.addresses.redis_url)
        try:
            key = f"millrace:social:home:{user}"
            (marker,) = [member for member in client.zrange(key, 0, -1) if member.startswith(b"~")]
            client.zrem(key, marker)
            client.zadd(key, {"~0000": 9e15})
        finally:
            client.close()
        assert await homes.read(user, NEWEST, 10) is None
        writer.push([([user], [(2, "po_2")])])
        await built(homes, user, (3, "po_3"))
        assert await homes.read(user, NEWEST, 10) == [(3, "po_3")]

    run(stack, test)


def test_where_memory_ends_homes_end_rather_than_lack_posts_and_what_is_beside_them_has_the_rest(
    tmp_path: Path,
) -> None:
    """Fan-out goes on, and no home is served as complete without what it could not be given."""
    server = CounterServer(tmp_path, "--appendonly", "no")  # whose buffers are memory in use, for a while
    with redis.Redis.from_url(server.url) as client:
        client.set("beside", bytes(20_000_000))

        def use(percent: int) -> None:
            client.config_set("maxmemory", client.info("memory")["used_memory"] * 100 // percent)

        async def test(homes: Homes, writer: HomeWriter, user: str) -> None:
            late = f"{user}_late"
            use(limits.HOMES_BEGUN_MEMORY_PERCENT - 5)
            await built(homes, user, (1, "po_1"))
            use(limits.HOMES_BEGUN_MEMORY_PERCENT + 5)
            assert await homes.begin(late) == 0, "no more of them"
            writer.push([([user, late], [(2, "po_2")])])
            assert await homes.read(user, NEWEST, 10) == [(2, "po_2"), (1, "po_1")], "those that are there go on"
            for percent in (limits.HOMES_KEPT_MEMORY_PERCENT + 5, 110):
                use(limits.HOMES_BEGUN_MEMORY_PERCENT - 5)
                await built(homes, user, (1, "po_1"))
                use(percent)
                writer.push([([late, user], [(3, "po_3")])])
                assert await homes.read(user, NEWEST, 10) is None
            client.config_set("maxmemory", 0)
            await built(homes, user, (4, "po_4"))
            writer.push([([user], [(5, "po_5")])])
            assert await homes.read(user, NEWEST, 10) == [(5, "po_5"), (4, "po_4")], "without a bound none ends"

        try:
            run_at(server.url, test)
        finally:
            server.close()


def test_homes_are_in_no_log_of_the_server(stack: World) -> None:
    """They are of no other life of it; written there, they cost more than all else of a delivery."""

    async def test(homes: Homes, writer: HomeWriter, user: str) -> None:
        client = redis.Redis.from_url(stack.addresses.redis_url)
        try:
            await built(homes, user, (1, "po_1"))
            writer.push([([user], [(2, "po_2")])])
            assert await homes.read(user, NEWEST, 10) == [(2, "po_2"), (1, "po_1")]
            client.set(f"logged:{user}", "", px=1_000)
            folder = Path(*(client.config_get(name)[name] for name in ("dir", "appenddirname")))
        finally:
            client.close()
        found = eventually(lambda: [log for log in logs_of(folder) if f"logged:{user}".encode() in log])
        assert f"home:{user}".encode() not in b"".join(found)

    run(stack, test)


def logs_of(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in folder.glob("*.incr.aof")]
