"""What fan-out does first, and what it puts off, on the real servers: nobody waits for another one's backlog."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import redis

from dataflows.social.erasure.crawler import SQL as ERASING
from dataflows.social.fanout.spread import Spread
from dataflows.social.fanout.waiting import Task, Waiting
from schemas.social import limits
from sinks.redis.homes import Homes, HomeWriter, newest
from tests.eventually import patient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import World

pytestmark = pytest.mark.servers
_PATIENCE_MS = 60_000
_NEWEST = (253_402_300_799_000_000, "\x7f")
_USERS = "insert into author (user_id) select unnest(%s::text[])"
_EDGES = "insert into follow select unnest(%s::text[]), %s, 'active', 1, 1, 1"
_POSTS = """
insert into post (post_id, author_id, visibility, text, version, state, root_id, is_pushed, created_at)
select 'po_' || %(author)s::text || '_' || lpad(n::text, 4, '0'), %(author)s, 'public', '', 1, 'published', '', true, n
from generate_series(1, %(count)s) n returning post_id
"""
_ERASURE = """
insert into erasure (user_id, erasure_id, state, version, created_at, updated_at)
values (%s, 'er_waiting', 'running', 1, 1, 1)
"""


class Town:
    """Authors, those who follow them, and their homes."""

    def __init__(self, stack: World, superuser: psycopg.Connection[Any], url: str, writer: HomeWriter) -> None:
        self.stack, self.url, self.writer, self._superuser = stack, url, writer, superuser
        self.name = f"u_{uuid.uuid4().hex[:10]}"

    def author(self, word: str, posts: int, fans: list[str]) -> list[str]:
        """Ids of its posts, oldest first; its followers' homes are there, and empty."""
        user = f"{self.name}{word}"
        self._superuser.execute(_USERS, [[user, *fans]])
        self._superuser.execute(_EDGES, [fans, user])
        for fan in fans:
            self.home(fan, is_built=True)
        rows = self._superuser.execute(_POSTS, {"author": user, "count": posts}).fetchall()
        return sorted(post_id for (post_id,) in rows)

    def published(self, word: str, posts: list[str]) -> list[Any]:
        """Events that tell of them."""
        body = {"kind": "post_published", "target_id": None, "pushed": True}
        return [
            SimpleNamespace(scope=f"user:{self.name}{word}", body=body | {"post_id": one}, version=1) for one in posts
        ]

    def home(self, fan: str, *, is_built: bool = False) -> list[str] | None:
        """Ids in a home, oldest first; None where its reader has to build it."""

        async def read() -> list[str] | None:
            homes = Homes(self.url, _PATIENCE_MS)
            try:
                if is_built:
                    await homes.finish(fan, await homes.begin(fan), newest([]))
                found = await homes.read(fan, _NEWEST, 1_000)
            finally:
                await homes.close()
            return None if found is None else sorted(post_id for _, post_id in found.places)

        return asyncio.run(asyncio.wait_for(read(), patient(60)))

    def unread(self, fan: str) -> None:
        """As if nobody had read it for a day."""
        with closing(redis.Redis.from_url(self.url)) as client:
            client.expire(f"millrace:social:home:{fan}", int(limits.HOME_TTL_S - limits.FANOUT_SEEN_S - 9))

    def waits(self) -> int:
        return int(self.rows("select coalesce(sum(deliveries), 0) from fanout_waiting")[0][0])

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self._superuser.execute(query.encode()).fetchall()

    def do(self, statement: str, given: list[Any]) -> None:
        self._superuser.execute(statement.encode(), given)


@pytest.fixture
def town(stack: World) -> Iterator[Town]:
    url = stack.addresses.redis_url
    with (
        psycopg.connect(stack.addresses.postgres_superuser_dsn, autocommit=True) as superuser,
        closing(HomeWriter(url, _PATIENCE_MS)) as writer,
    ):
        superuser.execute("delete from fanout_waiting")
        yield Town(stack, superuser, url, writer)


@pytest.fixture
def fan_out(town: Town) -> Iterator[Spread]:
    with psycopg.connect(town.stack.addresses.postgres_dsns["millrace_social_worker"], autocommit=True) as connection:
        yield Spread(connection, town.writer)


def test_a_huge_backlog_of_one_author_delays_no_post_of_another(town: Town, fan_out: Spread) -> None:
    """It waits where a kill does not reach it, in turns with what others left; nothing of it is lost."""
    flooded, other = f"{town.name}_flooded", f"{town.name}_other"
    many = town.author("a", limits.HOME_POSTS_KEPT, [flooded])
    few = town.author("b", 1, [other])
    fan_out.events(town.published("a", many) + town.published("b", few))
    assert town.home(other) == few
    assert town.home(flooded) == many[-limits.FANOUT_POSTS_AT_ONCE :], "the newest of the flood"
    assert town.waits() == len(many) - limits.FANOUT_POSTS_AT_ONCE
    while fan_out.rest():
        pass
    assert (town.home(flooded), town.waits()) == (many, 0)


def test_homes_that_nobody_read_of_late_come_after_those_of_readers(town: Town, fan_out: Spread) -> None:
    reader, sleeper = f"{town.name}_reader", f"{town.name}_sleeper"
    posts = town.author("a", 2, [reader, sleeper])
    town.unread(sleeper)
    fan_out.events(town.published("a", posts))
    assert town.home(reader) == posts
    assert town.home(sleeper) == []
    assert fan_out.rest()
    assert town.home(sleeper) == posts


def test_past_its_bound_homes_end_and_their_readers_build_them(
    town: Town, fan_out: Spread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost: a home that could not be given a post is served by nobody as if it were complete."""
    monkeypatch.setattr(limits, "FANOUT_WAITING_DELIVERIES_MAX", 3)
    reader, sleepers = f"{town.name}_reader", [f"{town.name}_sleeper{n}" for n in range(5)]
    posts = town.author("a", 1, [reader, *sleepers])
    for one in sleepers:
        town.unread(one)
    fan_out.events(town.published("a", posts))
    assert town.home(reader) == posts
    assert [town.home(one) for one in sleepers] == [None] * 5
    assert town.waits() == 0


def test_who_left_very_much_waiting_keeps_nobody_else_waiting(
    town: Town, fan_out: Spread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FANOUT_TASK_DELIVERIES", 2)
    monkeypatch.setattr(limits, "FANOUT_TASKS_AT_ONCE", 2)
    one, two = f"{town.name}_one", f"{town.name}_two"
    many, few = town.author("a", 40, [one]), town.author("b", 2, [two])
    for fan in (one, two):
        town.unread(fan)
    fan_out.events(town.published("a", many) + town.published("b", few))
    assert (town.home(one), town.home(two)) == ([], [])
    assert fan_out.rest()
    assert (town.home(one), town.home(two)) == (many[:2], few)


def test_what_waits_is_another_processs_when_the_one_that_was_at_it_dies(town: Town, fan_out: Spread) -> None:
    """And while it lives, nobody does it a second time."""
    sleeper = f"{town.name}_sleeper"
    posts = town.author("a", 1, [sleeper])
    town.unread(sleeper)
    fan_out.events(town.published("a", posts))
    dsn = town.stack.addresses.postgres_dsns["millrace_social_worker"]
    with psycopg.connect(dsn) as dying:
        dying.execute("select from fanout_waiting for update")
        assert not fan_out.rest()
        assert town.home(sleeper) == []
        dying.rollback()
    assert fan_out.rest()
    assert town.home(sleeper) == posts


def test_what_waits_brings_nothing_to_whom_an_edge_ended_since(town: Town, fan_out: Spread) -> None:
    """Its reader has built the home anew: it is of this server, and complete, and the post would lie there."""
    stays, left, back = (f"{town.name}_{word}" for word in ("stays", "left", "back"))
    posts = town.author("a", 2, [stays, left, back])
    for one in (stays, left, back):
        town.unread(one)
    fan_out.events(town.published("a", posts))
    town.do("update follow set state = 'removed', version = version + 1 where follower_id = any (%s)", [[left, back]])
    for one in (left, back):
        town.writer.drop([one])
        town.home(one, is_built=True)
    town.do("update follow set state = 'active', version = version + 1 where follower_id = %s", [back])
    town.do("update post set state = 'deleted' where post_id = %s", [posts[0]])
    while fan_out.rest():
        pass
    assert [town.home(one) for one in (stays, left, back)] == [posts[1:], [], posts[1:]]


def test_nothing_that_waits_names_a_user_who_is_erased(town: Town, fan_out: Spread) -> None:
    """Its turn, its edges and its homes; what is put off later, by whoever stood still, leaves it out, too."""
    gone, stays = f"{town.name}a", f"{town.name}_stays"
    town.author("a", 1, [stays])
    town.author("b", 1, [])
    put = Waiting(fan_out._connection).put
    tasks = [
        Task("posts", gone, homes=[stays], post_ids=["po_1"]),
        Task("edge", stays, gone, 1, [stays]),
        Task("edge", gone, stays, 1, [gone]),
        Task("ended", gone, "po_2"),
        Task("posts", f"{town.name}b", homes=[stays, gone], post_ids=["po_3"]),
        Task("posts", f"{town.name}b", homes=[gone], post_ids=["po_3"]),
    ]
    assert [put(task) for task in tasks] == [True] * len(tasks)
    town.do("update author set state = 'deleting', display_name = '' where user_id = %s", [gone])
    town.do(
        "insert into erasure (user_id, erasure_id, state, version, created_at, updated_at) values (%s, 'er_w', 'running', 1, 1, 1)",
        [gone],
    )
    town.do("update follow set state = 'removed' where %s in (follower_id, followee_id)", [gone])
    town.do("update post set state = 'deleted' where author_id = %s", [gone])
    given = {"user_id": gone, "limit": 10, "stub": 100, "now": 1}
    eraser_dsn = town.stack.addresses.postgres_dsns["millrace_social_eraser"]
    with psycopg.connect(eraser_dsn, autocommit=True) as eraser:

        def count(step: str) -> int:
            ((found, *_),) = eraser.execute(ERASING[step].encode(), given).fetchall()
            return int(found)

        assert count("left_over") == len(tasks), "no certificate before it is gone"
        assert [count(step) for step in ("waiting_settled", "take_waiting", "take_waiting")] == [0, len(tasks), 0]
        assert count("left_over") == 0
        assert [put(task) for task in tasks] == [True, True, True, False, True, True], "what ended is out at once"
        assert count("left_over") == 0
    assert town.rows("select homes from fanout_waiting order by task_id") == [([stays],), ([],)] * 2
