"""Homes on the real server: each post once, never more than they hold, and nothing falls between a build and a push."""

from __future__ import annotations

import asyncio
import re
import threading
import uuid
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import redis

from schemas import errors
from schemas.social import limits
from sinks.redis.homes import Homes, HomeWriter, Part, newest
from tests.eventually import eventually, patient
from tests.worlds.limiter.counter_server import CounterServer
from tests.worlds.social_fanout import Whole

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
    await homes.finish(user, await homes.begin(user), newest(list(posts)))


def whole(places: list[Place]) -> Part:
    """All that there is."""
    return Part(places, 0)


def test_what_is_pushed_while_a_home_is_built_is_in_it(stack: World) -> None:
    """Trap: read from Postgres, pushed by fan-out, written by the reader, in this order."""

    async def test(homes: Homes, writer: HomeWriter, user: str) -> None:
        writer.push([([user], [(1, "po_lost")])])  # nobody reads it: there is no home
        assert await homes.read(user, NEWEST, 10) is None
        token = await homes.begin(user)
        writer.push([([user], [(3, "po_3")])])
        assert await homes.read(user, NEWEST, 10) is None
        await homes.finish(user, token, newest([(2, "po_2")]))
        assert await homes.read(user, NEWEST, 10) == whole([(3, "po_3"), (2, "po_2")])
        assert await homes.begin(user) == 0  # complete: there is nothing to build

    run(stack, test)


def test_a_build_that_is_overtaken_or_whose_home_was_dropped_writes_nothing(stack: World) -> None:
    async def test(homes: Homes, writer: HomeWriter, user: str) -> None:
        first = await homes.begin(user)
        second = await homes.begin(user)
        await homes.finish(user, first, newest([(1, "po_old")]))
        assert await homes.read(user, NEWEST, 10) is None
        writer.drop([user])
        await homes.finish(user, second, newest([(1, "po_old")]))
        assert await homes.read(user, NEWEST, 10) is None
        await built(homes, user, (2, "po_2"))
        assert await homes.read(user, NEWEST, 10) == whole([(2, "po_2")])

    run(stack, test)


def test_what_was_read_for_one_building_of_a_home_reaches_no_later_one(stack: World) -> None:
    """Whoever read it stood still, while the home ended and its reader built it anew."""

    async def test(homes: Homes, writer: HomeWriter, user: str) -> None:
        assert writer.building_of(user) is None
        token = await homes.begin(user)
        building = writer.building_of(user)
        assert building is not None
        writer.fill(user, building, [(3, "po_3"), (1, "po_1")])
        await homes.finish(user, token, newest([(2, "po_2")]))
        assert writer.building_of(user) == building  # complete, it is the same one
        writer.fill(user, building, [(4, "po_4"), (1, "po_1")])
        assert await homes.read(user, NEWEST, 10) == whole([(4, "po_4"), (3, "po_3"), (2, "po_2"), (1, "po_1")])
        writer.drop([user])
        writer.fill(user, building, [(5, "po_5")])
        await built(homes, user, (6, "po_6"))
        writer.fill(user, building, [(5, "po_5")])
        assert await homes.read(user, NEWEST, 10) == whole([(6, "po_6")])

    run(stack, test)


class StandingStill(HomeWriter):
    """Of a worker that has read what it brings home, and goes on much later."""

    def __init__(self, url: str) -> None:
        super().__init__(url, _PATIENCE_MS)
        self.has_read, self.goes_on = threading.Event(), threading.Event()

    def fill(self, *given: Any) -> None:
        self.has_read.set()
        assert self.goes_on.wait(patient(60))
        super().fill(*given)


_EDGE = """
with users as (insert into author (user_id) values (%(author)s), (%(fan)s)),
edge as (insert into follow values (%(fan)s, %(author)s, 'active', 1, 1, 1))
insert into post (post_id, author_id, visibility, text, version, state, root_id, is_pushed, created_at)
values (%(post)s, %(author)s, 'public', '', 1, 'published', %(post)s, true, 7)
"""


def test_a_worker_that_stood_still_brings_nothing_home_of_an_edge_that_ended(stack: World) -> None:
    """Trap 9: followed, left, followed again; what the first edge began goes on after each of them, and does nothing."""
    dsn = stack.addresses.postgres_dsns["millrace_social_worker"]

    async def test(homes: Homes, writer: HomeWriter, user: str) -> None:
        names = {"fan": user, "author": f"{user}_a", "post": f"po_{user}"}

        def told(kind: str, version: int) -> Any:
            body = {"kind": kind, "target_id": names["author"], "state": "active", "pushed": False}
            return SimpleNamespace(scope=f"user:{user}", body=body, version=version)

        def move(state: str, version: int) -> None:
            given = {"state": state, "version": version} | names
            changed = "update follow set state = %(state)s, version = %(version)s where follower_id = %(fan)s"
            superuser.execute(changed, given)

        with (
            psycopg.connect(stack.addresses.postgres_superuser_dsn, autocommit=True) as superuser,
            psycopg.connect(dsn, autocommit=True) as connection,
            psycopg.connect(dsn, autocommit=True) as standing,
            closing(StandingStill(stack.addresses.redis_url)) as still,
        ):
            superuser.execute(_EDGE, names)
            fan_out = Whole(connection, writer)
            await built(homes, user)
            old = threading.Thread(target=Whole(standing, still).events, args=([told("followed", 1)],))
            old.start()
            try:
                assert still.has_read.wait(patient(60))
                move("removed", 2)
                fan_out.events([told("unfollowed", 2)])
                assert await homes.read(user, NEWEST, 10) is None
                await built(homes, user)
            finally:
                still.goes_on.set()
                old.join()
            assert await homes.read(user, NEWEST, 10) == whole([])
            move("active", 3)
            for version, brought in {1: list[Any](), 3: [(7, names["post"])]}.items():
                fan_out.events([told("followed", version)])
                assert await homes.read(user, NEWEST, 10) == whole(brought)

    run(stack, test)


def test_a_home_has_each_post_once_in_the_order_of_their_places_and_no_more_than_it_holds(stack: World) -> None:
    """Several of one microsecond, around which a page may begin."""

    async def test(homes: Homes, writer: HomeWriter, user: str) -> None:
        await built(homes, user)
        kept, most = limits.HOME_POSTS_KEPT, limits.HOME_POSTS_KEPT + limits.HOME_POSTS_SPARE
        same = [(most, f"po_{n}") for n in range(4)]
        more = [(n, f"po_{n:05}x") for n in range(1, most - 3)]
        for _ in range(2):
            writer.push([([user, "u_nobody"], [*more, *same])])
        assert await homes.read(user, NEWEST, most + 9) == whole(sorted([*same, *more], reverse=True))
        last, floor = (most + 1, "po_last"), most + 2 - kept  # even
        writer.push([([user], [last])])
        assert await homes.read(user, NEWEST, most + 9) == ([last, *same[::-1], *more[: floor - 1 : -1]], floor)
        assert (await homes.read(user, same[2], 3)).places == [same[1], same[0], more[-1]]  # type: ignore[union-attr]
        writer.forget([user], "po_3")
        assert (await homes.read(user, last, 1)).places == [same[2]]  # type: ignore[union-attr]

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
        posts = {author: [(n, f"po_{author}{n}") for n in range(1, 4)] for author in fans}
        writer.push([(fans[author], posts[author]) for author in fans] + [(["u_nobody"], [])])
        for author, each in fans.items():
            for fan in each:
                assert await homes.read(fan, NEWEST, 10) == whole(posts[author][::-1])

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
        assert await homes.read(user, NEWEST, 10) == whole([(3, "po_3")])

    run(stack, test)


def test_a_reader_goes_on_behind_a_server_that_cut_it_off_or_forgot_its_scripts(tmp_path: Path) -> None:
    """And says at once that there is no server any more."""
    server = CounterServer(tmp_path, "--appendonly", "no")

    async def test(homes: Homes, writer: HomeWriter, user: str) -> None:
        await built(homes, user, *[(n, f"po_{n}") for n in range(1, 100)])
        with redis.Redis.from_url(server.url) as client:
            for _ in range(3):
                client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
                client.script_flush()
                found = await asyncio.gather(*(homes.read(user, (n, ""), 5) for n in range(2, 100)))
                for n, part in zip(range(2, 100), found, strict=True):
                    assert part == whole([(at, f"po_{at}") for at in range(n - 1, max(0, n - 6), -1)])
        server.close()
        with pytest.raises(errors.Unavailable):
            await homes.read(user, NEWEST, 5)

    try:
        run_at(server.url, test)
    finally:
        server.close()


def test_where_memory_ends_homes_end_rather_than_lack_posts_and_what_is_beside_them_has_the_rest(
    tmp_path: Path,
) -> None:
    """Fan-out goes on, and no home is served as complete without what it could not be given."""
    server = CounterServer(tmp_path, "--appendonly", "no")  # whose buffers are memory in use, for a while
    with redis.Redis.from_url(server.url) as client:
        client.setrange(
            "beside", 20_000_000 - 1, b"\0"
        )  # made there: a buffer for what is sent would be freed in the midst

        def use(percent: int) -> None:
            client.config_set("maxmemory", client.info("memory")["used_memory"] * 100 // percent)

        async def test(homes: Homes, writer: HomeWriter, user: str) -> None:
            late = f"{user}_late"
            use(limits.HOMES_BEGUN_MEMORY_PERCENT - 5)
            await built(homes, user, (1, "po_1"))
            use(limits.HOMES_BEGUN_MEMORY_PERCENT + 5)
            assert await homes.begin(late) == 0, "no more of them"
            writer.push([([user, late], [(2, "po_2")])])
            assert await homes.read(user, NEWEST, 10) == whole([(2, "po_2"), (1, "po_1")]), "those that are there go on"
            for percent in (limits.HOMES_KEPT_MEMORY_PERCENT + 5, 110):
                use(limits.HOMES_BEGUN_MEMORY_PERCENT - 5)
                await built(homes, user, (1, "po_1"))
                use(percent)
                writer.push([([late, user], [(3, "po_3")])])
                assert await homes.read(user, NEWEST, 10) is None
            use(limits.HOMES_KEPT_MEMORY_PERCENT + 5)
            client.config_set("maxmemory-policy", "allkeys-lru")
            assert await homes.begin(late) != 0, "a server that evicts has no counters"
            await built(homes, user, (1, "po_1"))
            writer.push([([user], [(2, "po_2")])])
            assert await homes.read(user, NEWEST, 10) == whole([(2, "po_2"), (1, "po_1")])
            writer.drop([user])
            client.config_set("maxmemory-policy", "noeviction")
            client.config_set("maxmemory", 0)
            await built(homes, user, (4, "po_4"))
            writer.push([([user], [(5, "po_5")])])
            assert await homes.read(user, NEWEST, 10) == whole([(5, "po_5"), (4, "po_4")]), "without a bound none ends"

        try:
            run_at(server.url, test)
        finally:
            server.close()


def test_a_user_of_valkey_with_the_rights_that_operators_are_told_of_has_homes_and_nothing_else(tmp_path: Path) -> None:
    """On a server of their own, or beside the counters."""
    (told,) = re.findall(r"`ACL SETUSER homes on >PASSWORD\s([^`]+)`", Path("docs/operators.md").read_text())
    server = CounterServer(tmp_path, "--appendonly", "no")

    async def test(homes: Homes, writer: HomeWriter, user: str) -> None:
        await built(homes, user, (1, "po_1"), (2, "po_2"))
        writer.push([([user, f"{user}x"], [(3, "po_3")])])
        writer.forget([user], "po_2")
        assert await homes.read(user, NEWEST, 10) == whole([(3, "po_3"), (1, "po_1")])
        assert writer.are_there([user]) == 1
        writer.drop([user])
        assert writer.are_there([user]) == 0

    try:
        url = server.url_of("homes", "resetkeys", "-@all", *told.split())
        run_at(url, test)
        with redis.Redis.from_url(url) as client:
            for command in (
                ("GET", "millrace:velocity:x"),
                ("FLUSHALL",),
                ("CONFIG", "GET", "requirepass"),
                ("KEYS", "*"),
            ):
                with pytest.raises(redis.exceptions.NoPermissionError):
                    client.execute_command(*command)
    finally:
        server.close()


def test_homes_are_in_no_log_of_the_server(stack: World) -> None:
    """They are of no other life of it; written there, they cost more than all else of a delivery."""

    async def test(homes: Homes, writer: HomeWriter, user: str) -> None:
        client = redis.Redis.from_url(stack.addresses.redis_url)
        try:
            await built(homes, user, (1, "po_1"))
            writer.push([([user], [(2, "po_2")])])
            assert await homes.read(user, NEWEST, 10) == whole([(2, "po_2"), (1, "po_1")])
            client.set(f"logged:{user}", "", px=1_000)
            folder = Path(*(client.config_get(name)[name] for name in ("dir", "appenddirname")))
        finally:
            client.close()
        found = eventually(lambda: [log for log in logs_of(folder) if f"logged:{user}".encode() in log])
        assert f"home:{user}".encode() not in b"".join(found)

    run(stack, test)


def logs_of(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in folder.glob("*.incr.aof")]
