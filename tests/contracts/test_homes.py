"""Homes on the real server: each post once, never more than they hold, and nothing falls between a build and a push."""

from __future__ import annotations

import asyncio
import random
import re
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis

from ingress.social.homes import HomeReader
from schemas.social import limits
from sinks.redis.homes import Homes, HomeWriter, Part, newest
from tests.eventually import eventually, patient
from tests.gate import RUN_SEED, examples
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


class Truth:
    """Postgres as far as a reader of homes asks it: the posts that are there, in the order of their places."""

    def __init__(self) -> None:
        self.posts: list[Place] = []

    async def rows(self, name: str, given: dict[str, Any]) -> list[Place]:
        assert name == "home_build"
        return self.behind((given["at"], given["id"]))[: given["count"]]

    async def require_present(self, user: str) -> None:
        """Everybody is."""

    def behind(self, place: Place) -> list[Place]:
        return sorted((post for post in self.posts if post < place), reverse=True)


class Life:
    """What happens to one home, drawn by chance; ``truth`` is changed before the home hears of it, as everywhere."""

    def __init__(self, chance: random.Random, homes: Homes, writer: HomeWriter, client: redis.Redis, user: str) -> None:
        self._chance, self._homes, self._writer, self._client, self._user = chance, homes, writer, client, user
        self.truth, self._made, self._newest = Truth(), 0, 1_790_000_000_000_000
        self.key = f"millrace:social:home:{user}"

    async def goes_on(self) -> None:
        await self._chance.choice([self._told, self._told, self._told, self._forgotten, self._ended, self._rebuilt])()

    def _post(self) -> Place:
        """Mostly a new one, some of one microsecond; now and then an older one, which somebody reposts."""
        self._made += 1
        self._newest += self._chance.choice([0, 1, 2, 3])
        back = self._chance.choice([0, 0, 0, 1, self._chance.randrange(30)])
        return self._newest - back, f"po_{self._chance.randrange(10)}{self._made}"

    def _posts(self) -> list[Place]:
        made = [self._post() for _ in range(self._chance.choice([1, 1, 1, 2, 9]))]
        self.truth.posts += made
        return [*made, *self._chance.choices(self.truth.posts, k=2)]  # some of them again

    async def _told(self) -> None:
        posts = self._posts()
        if self._chance.random() < 0.7:
            self._writer.push([(["u_nobody", self._user], posts)])
        else:  # by fan-out of the release before
            marked = [one for one in self._client.zrange(self.key, 0, -1) if one.startswith(b"~")]
            if marked:
                self._client.zadd(self.key, {post_id: at for at, post_id in posts}, nx=True)

    async def _forgotten(self) -> None:
        for post in self._chance.sample(self.truth.posts, min(3, len(self.truth.posts))):
            self.truth.posts.remove(post)
            self._writer.forget([self._user], post[1])

    async def _ended(self) -> None:
        if self._chance.random() < 0.2:
            self._writer.drop([self._user])

    async def _rebuilt(self) -> None:
        if self._chance.random() < 0.2:
            self._writer.drop([self._user])
            token = await self._homes.begin(self._user)
            read = newest(self.truth.behind(NEWEST)[: limits.HOME_POSTS_KEPT])
            await self._told()
            await self._homes.finish(self._user, token, read)


def test_a_walk_of_a_home_meets_each_post_once_however_little_is_kept(
    stack: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any order, again and again, beside fan-out of the release before; what is not kept comes from Postgres."""
    monkeypatch.setattr(limits, "HOME_POSTS_KEPT", 6)
    monkeypatch.setattr(limits, "HOME_POSTS_SPARE", 3)
    monkeypatch.setattr(limits, "TIMELINE_MARGINS", ())

    async def test(homes: Homes, writer: HomeWriter, user: str) -> None:
        chance, kept = random.Random(RUN_SEED), list[int]()
        with redis.Redis.from_url(stack.addresses.redis_url) as client:
            life = Life(chance, homes, writer, client, user)
            reader = HomeReader(life.truth, life.truth, homes)  # type: ignore[arg-type] # as far as it asks
            for _ in range(examples(gate=120, proof=5_000)):
                await life.goes_on()
                before, place, met = life.truth.behind(NEWEST), NEWEST, list[Any]()
                is_still = chance.random() < 0.5
                while True:
                    count = chance.randint(1, 12)
                    page = await reader.before(user, place, count)
                    met += page
                    if len(page) < count:
                        break
                    place = page[-1]
                    if not is_still and chance.random() < 0.3:
                        await life.goes_on()
                kept.append(client.zcard(life.key))
                assert met == sorted(set(met), reverse=True)
                lasting = set(before) & set(life.truth.posts)
                assert lasting - set(met) == set(), "what was there all the while"
                assert not is_still or met == before
                if len(life.truth.posts) > 40:
                    del life.truth.posts[:]
                    writer.drop([user])
        assert max(kept) < 30, "no home keeps all"

    run(stack, test)


def test_a_home_of_the_release_before_is_shortened_by_the_next_post_and_read_by_both(stack: World) -> None:
    async def test(homes: Homes, writer: HomeWriter, user: str) -> None:
        await built(homes, user)
        key, posts = f"millrace:social:home:{user}", [(n, f"po_{n:03}") for n in range(1, 801)]
        with redis.Redis.from_url(stack.addresses.redis_url) as client:
            client.zadd(key, {post_id: at for at, post_id in posts})
            assert await homes.read(user, NEWEST, 900) == whole(posts[::-1])
            writer.push([([user], [(801, "po_801")])])
            floor = 802 - limits.HOME_POSTS_KEPT
            found = await homes.read(user, NEWEST, 900)
            assert found == ([(801, "po_801"), *posts[: floor - 1 : -1]], floor - 1 + (floor - 1) % 2)
            marker = next(member for member in client.zrange(key, 0, -1) if member.startswith(b"~"))
            assert client.zcard(key) == limits.HOME_POSTS_KEPT + 1
            assert client.zscore(key, marker) >= 9e15, "a complete one"

    run(stack, test)


def test_a_home_that_outgrows_its_building_is_built_again(stack: World) -> None:
    """Its builder knows nothing of what would have been taken away."""

    async def test(homes: Homes, writer: HomeWriter, user: str) -> None:
        token = await homes.begin(user)
        writer.push([([user], [(n, f"po_{n}") for n in range(limits.HOME_POSTS_KEPT + limits.HOME_POSTS_SPARE + 1)])])
        await homes.finish(user, token, newest([(0, "po_0")]))
        assert await homes.read(user, NEWEST, 1) is None

    run(stack, test)


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
