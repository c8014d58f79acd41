"""The rule of who sees a post is part of each statement that shows posts: no function is called, nothing planned anew.

And what a statement reads does not grow with what there is beyond a page.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

from dataflows.social.erasure.eraser import SQL as ERASING
from dataflows.social.moderation.looks import SQL as LOOKING
from ingress.http.cursors import Cursors
from ingress.http.store import Store
from ingress.social.media.uploads import Uploads
from ingress.social.moderation.moderation import Moderation
from ingress.social.posts import Posts
from ingress.social.searches import PLANNED, windows
from schemas import errors
from schemas.social import limits
from schemas.social.media_origin import MediaOrigin
from sinks.objects.media_objects import source_key
from sinks.postgres.session import INDEXED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.servers import World

pytestmark = pytest.mark.servers
_QUERIES = resources.files("ingress") / "queries" / "social"
_SHOWING = sorted(entry.name.removesuffix(".sql") for entry in _QUERIES.iterdir() if "social_sees" in entry.read_text())


def numbered(text: str) -> tuple[str, list[str]]:
    """A statement with numbers for its parameters, and their names in this order."""
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    return re.sub(r"%\((\w+)\)s", number, text).replace("%%", "%"), names


def plan_of(stack: World, text: str, *settings: bytes) -> str:
    """The generic plan of a statement, as a connection keeps it."""
    asked, _ = numbered(text)
    with psycopg.connect(stack.addresses.postgres_superuser_dsn) as connection:
        for setting in settings:
            connection.execute(setting)
        rows = connection.execute(f"explain (generic_plan) {asked}".encode(), prepare=False).fetchall()
    return "\n".join(line for (line,) in rows)


@pytest.mark.parametrize("name", _SHOWING)
def test_the_rule_is_written_into_the_statement(stack: World, name: str) -> None:
    plan = plan_of(stack, (_QUERIES / f"{name}.sql").read_text())
    assert "block_pkey" in plan or "on block" in plan
    assert "social_" not in plan.replace("social_words", ""), plan


@pytest.mark.parametrize("name", sorted(ERASING))
def test_an_erasure_finds_all_by_an_index_however_much_there_is_of_others(stack: World, name: str) -> None:
    """A statement of it that reads a whole table takes too long one day, and no erasure ends any more."""
    plan = plan_of(stack, ERASING[name], b"set enable_seqscan = off")
    # what fan-out put off is hundreds of rows at most, of all users together
    assert "Seq Scan" not in plan.replace("Seq Scan on fanout_waiting", ""), plan
    if name == "left_over":  # it asks the rule, which may have read all blocks by an index: of posts that are not there
        return
    for scan in re.findall(r"Index (?:Only )?Scan (?:using|on) .*\n(?:(?!.*->)(?!.*Plan \d).*\n?)*", plan):
        assert "Index Cond" in scan, plan


def test_an_erasure_takes_what_quotas_counted_of_the_user(stack: World) -> None:
    given = {"user_id": "u_leaves", "limit": 10}
    totals = "select limit_key from limit_usage where limit_key like '%%u\\_leaves%%' order by 1"
    keys = [f"user%3A{user}:user%3A{user}:/v1/{n}" for user in ("u_leaves", "u_leaves2") for n in range(2)]
    with psycopg.connect(stack.addresses.postgres_superuser_dsn, autocommit=True) as superuser:
        superuser.execute("insert into author (user_id, state) values ('u_leaves', 'deleting')")
        superuser.execute(
            "insert into limit_usage select key, 'pl_a', 1, 1, 1, 1, now() from unnest(%s::text[]) key", (keys,)
        )
        superuser.execute(
            "insert into limit_usage_shadow select key_digest, policy_id, 1, as_of from limit_usage"
            " where limit_key = any (%s)",
            (keys,),
        )
        with psycopg.connect(stack.addresses.postgres_dsns["millrace_social_eraser"], autocommit=True) as eraser:
            taken = [eraser.execute(ERASING["take_usage"].encode(), given).fetchall() for _ in range(2)]
        assert taken == [[(2,)], [(0,)]]
        assert [key for (key,) in superuser.execute(totals).fetchall()] == keys[2:]
        left = superuser.execute(
            "select count(*) from limit_usage_shadow where key_digest in (select limit_key_digest(k) from unnest(%s::text[]) k)",
            (keys,),
        )
        assert left.fetchall() == [(2,)]


def test_a_medium_has_the_fields_of_the_specification(stack: World) -> None:
    """Its source while there are any bytes of it, as the objects have it."""
    with psycopg.connect(stack.addresses.postgres_superuser_dsn) as connection:
        connection.execute(
            "insert into author (user_id) values ('u_has');"
            "insert into media (media_id, owner_id, mime, size, sha256, parts, expires_in_s, scan_state, manifest, version,"
            " created_at, updated_at) select 'md_' || state, 'u_has', 'image/png', 1, repeat('a', 64), 1, 60, state,"
            " case state when 'ready' then '{}' end, 1, 1, 1 from unnest(array['initiated', 'ready', 'deleted']) state"
        )
        fields = (
            "select scan_state, source_uri, rendition_manifest from media where owner_id = 'u_has' order by media_id"
        )
        found = connection.execute(fields).fetchall()
        connection.rollback()
    assert found == [
        ("deleted", None, None),
        ("initiated", None, None),
        ("ready", source_key("md_ready", "a" * 64), "{}"),
    ]


def test_every_timeline_asks_the_rule() -> None:
    wanted = {entry.name.removesuffix(".sql") for entry in _QUERIES.iterdir() if entry.name.startswith("timeline_")}
    assert wanted | {"posts_shown", "post_versions", "post_counts", "media_of_posts"} <= set(_SHOWING)


@contextmanager
def planted(stack: World, *statements: str, settings: str = "") -> Iterator[psycopg.Connection[Any]]:
    """A session as the ingress has them, in which this is there; nobody else sees it."""
    options = f"{INDEXED} -c jit=off -c plan_cache_mode=force_generic_plan {settings}"
    with psycopg.connect(stack.addresses.postgres_superuser_dsn, options=options) as connection:
        for statement in statements:
            connection.execute(statement.encode(), prepare=False)
        yield connection
        connection.rollback()


def rows_read(connection: psycopg.Connection[Any], text: str, given: Mapping[str, Any], table: str) -> int:
    """How many rows of a table a statement touches, by the plan that a connection keeps, whether it wants them or not."""
    asked, names = numbered(text)
    connection.execute(f"prepare measured as {asked}".encode(), prepare=False)
    said = sql.SQL(", ").join(sql.Literal(given[name]) for name in names)
    explained = sql.SQL("explain (analyze, timing off, format json) execute measured ({})").format(said)
    ((found,),) = connection.execute(explained, prepare=False)
    connection.execute("deallocate measured")
    return sum(
        int(node["Actual Loops"]) * (int(node["Actual Rows"]) + int(node.get("Rows Removed by Filter", 0)))
        for node in _nodes(found[0]["Plan"])
        if node.get("Relation Name") == table
    )


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _nodes(part)


def text_of(query: str) -> str:
    return (_QUERIES / f"{query}.sql").read_text()


_EDGES = "insert into follow (follower_id, followee_id, state, version, created_at, updated_at)"
_POSTS = """insert into post (post_id, author_id, visibility, text, version, state, root_id, is_pushed, created_at)"""
_REACTIONS = """insert into reaction (kind, user_id, post_id, state, is_pushed, version, created_at, updated_at)"""
#: 20,000 posts of somebody, the first of which is the newest, and all are reposted the other way round; the newest by many
_REPOSTED = (
    "insert into author (user_id) select 'u_' || n from generate_series(1, 400) n",
    "insert into author (user_id) values ('u_star'), ('u_home'), ('u_other')",
    f"{_EDGES} values ('u_home', 'u_star', 'active', 1, 0, 0)",
    f"{_EDGES} select 'u_home', 'u_' || n, 'active', 1, 0, 0 from generate_series(1, 30) n",
    f"{_POSTS} select 'po_' || n, 'u_other', 'public', '', 1, 'published', 'po_' || n, false, 30000 - n"
    " from generate_series(1, 20000) n",
    f"{_REACTIONS} select 'repost', 'u_star', 'po_' || n, 'active', false, 1, n, n from generate_series(1, 20000) n",
    f"{_REACTIONS} select 'repost', 'u_' || n, 'po_1', 'active', false, 1, 0, n from generate_series(1, 400) n",
    "analyze",
)


def test_a_home_reads_as_much_of_reposts_as_a_page_has_room_for(stack: World) -> None:
    """However many the followed ever made, and however many others reposted the same: older pages still have theirs."""
    page = {"viewer": "u_home", "times": [], "ids": [], "since": -1, "count": 24}
    newest, older = page | {"at": 2**62, "id": ""}, page | {"at": 15_000, "id": ""}
    with planted(stack, *_REPOSTED) as connection:
        for asked, first in ((newest, 1), (older, 15_001)):
            found = connection.execute(text_of("timeline_home").encode(), asked).fetchall()
            assert [row[5] for row in found] == [f"po_{n}" for n in range(first, first + 24)]
            assert all(row[2] for row in found)
            assert {row[3] for row in found[1:]} == {"u_star"}
            assert rows_read(connection, text_of("timeline_home"), asked, "reaction") < 1_000
        assert connection.execute(text_of("timeline_home").encode(), newest).fetchall()[0][3] == "u_1"
        connection.execute("update reaction set is_pushed = true where user_id = 'u_star'")
        for place, first in ((2**62, 1), (15_000, 15_001)):
            built = {"viewer": "u_home", "at": place, "id": "", "count": 100}
            found = connection.execute(text_of("home_build").encode(), built).fetchall()
            assert [row[1] for row in found] == [f"po_{n}" for n in range(first, first + 100)]
            assert rows_read(connection, text_of("home_build"), built, "reaction") < 1_000


#: a post an hour, all with the same word, and the last of them with a word of its own
_SAID = (
    "insert into author (user_id) values ('u_says')",
    f"{_POSTS} select 'po_' || n, 'u_says', 'public', 'common' || case n when 20000 then ' rare' else '' end, 1, 'published',"
    " 'po_' || n, false, 100000 * 3600000000 - n * 3600000000::bigint from generate_series(0, 20000) n",
    "select gin_clean_pending_list('post_words')",
    "analyze",
)


def test_a_search_reads_the_newest_of_many_posts_and_all_of_a_few(stack: World) -> None:
    now = 100_000 * 3_600_000_000
    page = {"viewer": "u_reads", "symbols": [], "at": now + 1, "id": "", "count": 24}
    with planted(stack, *_SAID, settings=PLANNED) as connection:
        for words, most in (("common", 1_001), ("rare", 1)):
            asked = {"words": words, "most": limits.SEARCH_MATCHES_FEW + 1}
            assert connection.execute(text_of("search_matches").encode(), asked).fetchone() == (most,)
            assert rows_read(connection, text_of("search_matches"), asked, "post") == most
        read = 0
        for since in windows(now, now):
            asked = page | {"words": "common", "since": since}
            read += rows_read(connection, text_of("timeline_search"), asked, "post")
            found = connection.execute(text_of("timeline_search").encode(), asked).fetchall()
            if len(found) == 24:
                break
        assert [row[4] for row in found] == [f"po_{n}" for n in range(24)]
        assert read < 500
        asked = page | {"words": "rare", "since": None}
        assert [row[4] for row in connection.execute(text_of("timeline_search").encode(), asked)] == ["po_20000"]
        assert rows_read(connection, text_of("timeline_search"), asked, "post") < 10


_LIKED = (
    "insert into author (user_id, state) select 'u_' || n, case n when 5 then 'suspended' else 'active' end"
    " from generate_series(1, 9) n",
    *(
        f"{_POSTS} values ('po_{name}', 'u_9', 'public', '', 1, 'published', 'po_{name}', false, 0)"
        for name in ("many", "few")
    ),
    f"{_REACTIONS} select 'like', 'u_' || n, 'po_many', 'active', false, 1, 0, 0 from generate_series(1, 20000) n",
    f"{_REACTIONS} select kind, 'u_' || n, 'po_few', 'active', false, 1, 0, 0"
    " from generate_series(1, 5) n, unnest(array['like', 'repost']) kind",
    "update reaction set state = 'removed' where kind = 'repost' and user_id in ('u_1', 'u_2', 'u_5')",
    "update reaction set state = 'active' where kind = 'repost' and user_id = 'u_1'",
    "insert into post (post_id, author_id, visibility, text, version, state, reply_to, root_id, is_pushed, created_at)"
    " select 're_' || of || n, 'u_9', case of || n when 'few1' then 'private' else 'public' end, '', 1, 'published', 'po_' || of, 'po_' || of,"
    " false, n from unnest(array['few', 'many']) of, generate_series(1, case of when 'few' then 3 else 5000 end) n",
    "analyze",
)


def test_counts_of_a_post_read_no_more_than_is_counted_one_by_one(stack: World) -> None:
    with planted(stack, *_LIKED) as connection:
        for name, counts in (("few", (4, 3, 2)), ("many", (20_000, 0, limits.POST_COUNTED_MAX))):
            asked = {"id": f"po_{name}", "viewer": "u_1", "most": limits.POST_COUNTED_MAX}
            assert connection.execute(text_of("post_counts").encode(), asked).fetchone() == counts
            assert rows_read(connection, text_of("post_counts"), asked, "reaction") < 20
            assert rows_read(connection, text_of("post_counts"), asked, "post") <= limits.POST_COUNTED_MAX
        looked = resources.files("reconciliation") / "social" / "invariants" / "social_counts.sql"
        assert connection.execute(looked.read_bytes()).fetchall() == []
        connection.execute("update reaction_count set active = active + 1 where kind = 'repost'")
        assert connection.execute(looked.read_bytes()).fetchall() == [("po_few", "repost", 3, 4)]


def test_a_page_of_answers_reads_as_many_as_it_shows(stack: World) -> None:
    others = f"{_POSTS} select 'x' || n, 'u_9', 'public', '', 1, 'published', 'x', false, n / 9 from generate_series(1, 50000) n"
    with planted(stack, *_LIKED, others, "analyze") as connection:
        asked = {"post_id": "po_many", "viewer": "u_1", "at": 2_000, "id": "re_many2000", "count": 24}
        found = connection.execute(text_of("timeline_replies").encode(), asked).fetchall()
        assert [row[4] for row in found] == [f"re_many{n}" for n in range(2_001, 2_025)]
        assert rows_read(connection, text_of("timeline_replies"), asked, "post") <= 24


_DECISIONS = """insert into moderation_decision
    (decision_id, object_id, author_id, decision, reason, policy_version, expires_at, supersedes, moderator, version, created_at)"""
#: one that is over, one that is not yet, one of before times were checked; 5,000 that were over long ago, each superseded
_DECIDED = (
    *(
        f"{_DECISIONS} values ('mo_{name}', 'po_{name}', 'u_1', 'limit', '', 1, '{ends}', null, 'u_2', 1, 0)"
        for name, ends in (
            ("over", "2026-01-31T12:00:00.5+02:00"),
            ("later", "9000-01-31T12:00:00Z"),
            ("ever", "20260131"),
        )
    ),
    f"{_DECISIONS} select 'mo_' || n, 'po_old', 'u_1', 'limit', '', 1, '2026-01-31T12:00:00Z', 'mo_' || nullif(n - 1, 0),"
    " 'u_2', n, 0 from generate_series(1, 5000) n",
    f"{_DECISIONS} values ('mo_last', 'po_old', 'u_1', 'none', '', 1, null, 'mo_5000', 'u_2', 5001, 0)",
    "insert into moderation_current (object_id, effect, decision_id, epoch)"
    " select object_id, decision, decision_id, version from moderation_decision"
    " where decision_id in ('mo_over', 'mo_later', 'mo_ever', 'mo_1')",
    "update moderation_current set decision_id = 'mo_last', effect = 'none', epoch = 5001 where object_id = 'po_old'",
    "analyze",
)


def test_decisions_that_are_over_are_found_among_any_number_that_others_superseded(stack: World) -> None:
    with planted(stack, *_DECIDED) as connection:
        over = LOOKING["decisions_over"]
        found = connection.execute(over, {"limit": 200}).fetchall()
        assert [decision for decision, _ in found] == ["mo_over", "mo_ever"]
        assert rows_read(connection, over, {"limit": 200}, "moderation_decision") < 100
        looked = resources.files("reconciliation") / "social" / "invariants" / "social_moderation.sql"
        assert connection.execute(looked.read_bytes()).fetchall() == []
        connection.execute("update moderation_current set ends_at = null where object_id = 'po_later'")
        assert [row[0] for row in connection.execute(looked.read_bytes()).fetchall()] == ["po_later"]


_SEED = """
insert into author (user_id) values ('u_writes'), ('u_reads');
insert into post (post_id, author_id, visibility, text, version, state, media_ids, root_id, is_pushed, created_at)
values ('po_rule', 'u_writes', 'public', '', 1, 'published', array['md_rule'], 'po_rule', true, 1);
insert into media (media_id, owner_id, mime, size, sha256, parts, expires_in_s, scan_state, manifest, attached_post_id,
                   version, created_at, updated_at)
values ('md_rule', 'u_writes', 'image/png', 1, repeat('a', 64), 1, 60, 'ready', '{"renditions":[{"name":"full"}]}',
        'po_rule', 1, 1, 1);
"""
_ORIGIN = MediaOrigin(url="http://media", uploads_url="http://media", key=b"k" * 32, folder=Path("media"))


class HidingStore(Store):
    """The author's change is committed after the post was read, and before its media are."""

    hide: Any = None

    async def records(self, query: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        if query == "media_of_posts" and self.hide is not None:
            self.hide()
        return await super().records(query, parameters)


async def _shown(stack: World, viewer: str, hide: Any = None) -> Any:
    store = HidingStore(stack.addresses.postgres_dsns["millrace_ingress"])
    store.hide = hide
    cursors = Cursors(b"c" * 32)
    await store.open()
    try:
        posts = Posts(store, cursors, Uploads(store, _ORIGIN), Moderation(store, cursors))
        return (await posts.get(viewer, "po_rule"))["media"]
    except errors.NotFound:
        return None
    finally:
        await store.close()


def test_a_post_that_is_hidden_while_it_is_read_gives_its_reader_no_url_of_the_new_access_version(stack: World) -> None:
    with psycopg.connect(stack.addresses.postgres_superuser_dsn, autocommit=True) as connection:
        connection.execute(_SEED.encode())
        (before,) = asyncio.run(_shown(stack, "u_reads"))
        assert before["renditions"][0]["url"] == "http://media/media/md_rule/1/full"
        hiding = "update post set visibility = 'followers' where post_id = 'po_rule'"
        assert asyncio.run(_shown(stack, "u_reads", lambda: connection.execute(hiding.encode()))) == []
        assert asyncio.run(_shown(stack, "u_reads")) is None
        (after,) = asyncio.run(_shown(stack, "u_writes"))
        assert after["renditions"][0]["url"].startswith("http://media/media/md_rule/2/full?")


def test_what_commands_travel_under_is_committed_to_disk_before_they_are_sent(stack: World) -> None:
    """A user and its key, which a killed Postgres would forget otherwise: the session is one for notes alone."""
    said = {"user_id": "u_new", "fresh": b"k" * 32}
    dsn = stack.addresses.postgres_dsns["millrace_ingress"]
    with psycopg.connect(dsn, options="-c synchronous_commit=off") as connection:
        for name in ("author_called", "author_key"):
            for is_made in (True, False):
                ((found,),) = connection.execute((_QUERIES / f"{name}.sql").read_bytes(), said)
                assert found in {"active", b"k" * 32}
                ((waits,),) = connection.execute("show synchronous_commit")
                assert (waits == "on") is is_made, name
                connection.commit()


def test_what_followed_an_erased_user_is_ended_and_counted_no_more(stack: World) -> None:
    migration = resources.files("sinks.postgres") / "migrations" / "0229_edges_of_erased.sql"
    with psycopg.connect(stack.addresses.postgres_superuser_dsn) as connection:
        for user, state, followers in (("u_gone", "deleted", 1), ("u_going", "deleting", 1), ("u_here", "active", 1)):
            connection.execute(
                "insert into author (user_id, state, followers) values (%s, %s, %s)", (user, state, followers)
            )
            for follower, edge in (("u_x", "active"), ("u_y", "requested"), ("u_z", "removed")):
                connection.execute("insert into follow values (%s, %s, %s, 3, 1, 1)", (follower, user, edge))
        for _ in range(2):
            connection.execute(migration.read_text().encode())
        asked = "select followee_id, followers, string_agg(f.state || f.version, ' ' order by follower_id)"
        found = connection.execute(
            f"{asked} from follow f join author on user_id = followee_id group by 1, 2 order by 1"
        )
        edges = "active3 requested3 removed3"
        assert found.fetchall() == [
            ("u_going", 1, edges),
            ("u_gone", 0, "removed4 removed4 removed3"),
            ("u_here", 1, edges),
        ]
        connection.rollback()
