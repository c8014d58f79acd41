"""What is kept of a home in Valkey, on the real server: the newest posts; a walk meets the older ones in Postgres, each once."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
import redis

from ingress.social.homes import HomeReader
from schemas.social import limits
from sinks.redis.homes import Homes, HomeWriter, newest
from tests.contracts.test_homes import NEWEST, built, run, whole
from tests.gate import RUN_SEED, examples

if TYPE_CHECKING:
    from sinks.redis.homes import Place
    from tests.servers import World

pytestmark = pytest.mark.servers


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
            assert client.zcard(key) == limits.HOME_POSTS_KEPT + 2
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
