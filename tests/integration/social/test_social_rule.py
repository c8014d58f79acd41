"""The rule of who sees a post is part of each statement that shows posts: no function is called, nothing planned anew."""

from __future__ import annotations

import asyncio
import re
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from dataflows.social.erasure.eraser import SQL as ERASING
from ingress.http.cursors import Cursors
from ingress.http.store import Store
from ingress.social.media.uploads import Uploads
from ingress.social.moderation.moderation import Moderation
from ingress.social.posts import Posts
from schemas import errors
from schemas.media_origin import MediaOrigin
from sinks.objects.media_objects import source_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.servers import World

pytestmark = pytest.mark.servers
_QUERIES = resources.files("ingress") / "queries" / "social"
_SHOWING = sorted(entry.name.removesuffix(".sql") for entry in _QUERIES.iterdir() if "social_sees" in entry.read_text())


def plan_of(stack: World, text: str, *settings: bytes) -> str:
    """The generic plan of a statement, as a connection keeps it."""
    names: list[str] = []

    def numbered(found: re.Match[str]) -> str:
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    asked = re.sub(r"%\((\w+)\)s", numbered, text).replace("%%", "%")
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
    assert "Seq Scan" not in plan, plan
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
