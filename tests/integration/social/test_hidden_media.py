"""What hides media is purged from caches at once, and looked after until none can have it, of decisions cache by cache; and
what an erasure proves of media asks for the URLs that they had."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace
from importlib import resources
from types import SimpleNamespace
from typing import TYPE_CHECKING

import psycopg
import pytest

from dataflows.social.config import SocialConfig
from dataflows.social.erasure.crawler import SQL as ERASING
from dataflows.social.erasure.crawler import Crawler
from dataflows.social.media.caches import MediaCaches
from dataflows.social.moderation.looks import ORIGIN
from dataflows.social.moderation.looks import SQL as LOOKS
from dataflows.social.moderation.propagation import Propagation
from dataflows.worker.contract import WorkerPlace
from schemas.senders import of_worker
from schemas.social import limits
from schemas.social.media_origin import cache_keys
from sinks.objects.media_objects import media_objects
from tests import servers
from tests.eventually import becomes
from tests.worlds.media_cache import NOT_THERE, Edge, cached_origin

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from schemas.social.media_origin import MediaOrigin

pytestmark = [pytest.mark.servers]
OWNER = "u_hides"
RUNNING = {"limit": 1, "at": 0, "after": ""}
LASTING = {"Cache-Control": "public, max-age=3600"}  # a copy that ends within this test was purged
SEED = f"""
insert into author (user_id) values ('{OWNER}');
insert into post (post_id, author_id, visibility, text, version, state, media_ids, root_id, is_pushed, created_at)
select 'po_' || n, '{OWNER}', 'public', '', 1, 'published', array['md_' || n], 'po_' || n, true, n from generate_series(1, 4) n;
insert into media (media_id, owner_id, mime, size, sha256, parts, expires_in_s, scan_state, manifest, attached_post_id,
                   version, created_at, updated_at)
select 'md_' || n, '{OWNER}', 'image/png', 1, repeat('a', 64), 1, 60, 'ready', '{{"renditions":[{{"name":"full"}}]}}',
       'po_' || n, 1, 1, 1 from generate_series(1, 4) n;
"""
#: what is done to a post or a medium, by the number of what it hides; and what hides all of an author
HIDING = {
    1: "update post set visibility = 'followers' where post_id = 'po_1'",
    2: "update post set state = 'deleted', text = '', media_ids = '{}' where post_id = 'po_2'",
    3: "update media set scan_state = 'deleted', manifest = null where media_id = 'md_3'",
}
#: what a decision about a medium writes, as far as the media origin is meant
DECIDED = (
    "insert into moderation_decision (decision_id, object_id, author_id, decision, reason, policy_version, moderator, version, created_at)"
    f" values ('mo_1', 'md_1', '{OWNER}', 'remove', 'x', 1, 'u_m', 1, 1)",
    "insert into moderation_current (object_id, effect, decision_id, epoch) values ('md_1', 'remove', 'mo_1', 1)",
    "insert into moderation_propagation (decision_id, consumer, object_id, effect) values ('mo_1', 'media_origin', 'md_1', 'remove')",
)
VERIFIED = ("verified", None)
LOOK_NOW = "update moderation_propagation set next_at = clock_timestamp() where state = 'pending'"
INVARIANT = resources.files("reconciliation.social") / "invariants/social_propagation.sql"
HIDING_ALL = "update author set is_private = true"
OTHERS = ["update post set text = 'x', version = 2 where post_id = 'po_4'", "update author set followers = 1"]


@pytest.fixture
def edge(tmp_path: Path) -> Iterator[Edge]:
    with cached_origin(tmp_path) as made:
        yield made


@contextmanager
def looked_after(folder: Path, media: MediaOrigin) -> Iterator[psycopg.Connection]:
    """A database with a user's media, and the worker that looks after them."""
    with servers.world(folder / "home") as world:
        addresses = world.settings.addresses()
        place = WorkerPlace(
            name="social_propagation",
            kafka=world.settings.kafka_as(of_worker("social_propagation")),
            postgres_dsn=addresses.postgres_dsns["millrace_social_propagation"],
            client_id="propagation-test",
            of_services=(SocialConfig(media=media),),
        )
        worker = Propagation(place)
        thread = threading.Thread(target=worker.run)
        with psycopg.connect(addresses.postgres_superuser_dsn, autocommit=True) as connection:
            connection.execute(SEED.encode())
            thread.start()
            try:
                yield connection
            finally:
                worker.stop()
                thread.join()


def known_by(media_id: str) -> str:
    return cache_keys(media_id, media_id.replace("md_", "po_"), OWNER)


def test_a_copy_ends_when_its_medium_is_hidden_and_is_looked_after_until_none_can_come(
    edge: Edge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MEDIA_CACHE_FETCH_S", 600)  # a fetch that began before could come for so long
    with looked_after(tmp_path, edge.place) as connection:
        edge.origin.headers = LASTING
        edge.origin.keys = known_by
        paths = {n: f"/media/md_{n}/1/full" for n in range(1, 5)}
        assert {edge.get(path).status_code for path in paths.values()} == {200}
        for other in OTHERS:
            connection.execute(other.encode())
        edge.origin.status, edge.origin.headers = 404, NOT_THERE
        for n, statement in HIDING.items():
            connection.execute(statement.encode())
            becomes(lambda path=paths[n]: edge.get(path).status_code, 404, what=statement)  # type: ignore[misc]
        assert edge.get(paths[4]).status_code == 200  # nothing was hidden of it: its copy is there
        connection.execute(HIDING_ALL.encode())
        becomes(lambda: edge.get(paths[4]).status_code, 404, what=HIDING_ALL)
        left = "select count(*), min(seen) from media_hidden"
        becomes(lambda: connection.execute(left).fetchone(), (4, "md_1 may be on its way into a cache"))
        monkeypatch.setattr(limits, "MEDIA_CACHE_FETCH_S", -limits.MEDIA_CACHE_SLACK_S)
        connection.execute("update media_hidden set next_at = clock_timestamp()")
        becomes(lambda: connection.execute(left).fetchone(), (0, None))


def test_each_cache_is_a_consumer_of_a_decision_and_one_that_stands_still_is_told_as_it_is(
    edge: Edge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two caches, one of which answers nobody: the origin and the other one are verified, and the decision is not."""
    monkeypatch.setattr(limits, "PROPAGATION_FETCH_S", 1.0)
    monkeypatch.setattr(limits, "MEDIA_CACHE_FETCH_S", 600)
    origin = f"http://127.0.0.1:{edge.origin.server_port}"
    with cached_origin(tmp_path / "other") as other:
        place = replace(edge.place, uploads_url=origin, caches=(edge.url, other.url))
        with looked_after(tmp_path, place) as connection:
            path = "/media/md_1/1/full"
            for one in (edge, other):
                one.origin.headers, one.origin.keys = LASTING, known_by
                assert one.get(path).status_code == 200
                one.origin.status, one.origin.headers = 404, NOT_THERE

            def reached() -> dict[str, tuple[str, str | None]]:
                rows = connection.execute("select consumer, state, seen from moderation_propagation").fetchall()
                return {name: (state, seen) for name, state, seen in rows}

            with other.frozen():
                for statement in DECIDED:
                    connection.execute(statement.encode())
                way = ("pending", "md_1 may be on its way into a cache")
                still = {ORIGIN: VERIFIED, "media_cache-0": way, "media_cache-1": ("pending", "no answer")}
                becomes(reached, still)
                assert edge.get(path).status_code == 404, "it was purged at once"
                monkeypatch.setattr(limits, "MEDIA_CACHE_FETCH_S", -limits.MEDIA_CACHE_SLACK_S)
                connection.execute(LOOK_NOW)
                becomes(reached, still | {"media_cache-0": VERIFIED})
                connection.execute("update moderation_decision set created_at = 1")
                amiss = connection.execute(INVARIANT.read_bytes()).fetchall()
                assert "media_cache-1" in {detail for _, detail, _, _ in amiss}
            connection.execute(LOOK_NOW)
            becomes(reached, dict.fromkeys(still, VERIFIED))
            assert other.get(path).status_code == 404


def test_an_erasure_is_not_proved_while_a_url_that_a_medium_had_is_answered(
    edge: Edge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest is gone then, and the account, the post and the medium each raised the access version."""
    gone = [
        "update author set state = 'deleting' where user_id = 'u_hides'",
        "update post set state = 'deleted', text = '', media_ids = '{}'",
        "update media set scan_state = 'deleted', manifest = null, access_version = access_version + 1, version = version + 1",
        "insert into erasure (user_id, erasure_id, state, version, created_at, updated_at) values ('u_hides', 'er_1', 'running', 1, 1, 1)",
        "insert into moderation_decision (decision_id, object_id, author_id, decision, reason, policy_version, moderator, version, created_at)"
        " values ('mo_1', 'po_1', 'u_hides', 'remove', 'x', 1, 'u_m', 1, 1)",
        "insert into moderation_propagation (decision_id, consumer, object_id, effect) values ('mo_1', 'media_origin', 'po_1', 'remove')",
    ]
    with servers.world(tmp_path / "home") as world:
        addresses = world.settings.addresses()
        with psycopg.connect(addresses.postgres_superuser_dsn, autocommit=True) as seeding:
            seeding.execute(SEED.replace("full", "full-0a1b.webp").encode())
            for statement in gone:
                seeding.execute(statement.encode())
            left = seeding.execute("select object_id from media_hidden").fetchall()
            assert left == [(OWNER,)], "what it had is hidden with it"
        with psycopg.connect(addresses.postgres_dsns["millrace_social_eraser"], autocommit=True) as connection:
            homes = SimpleNamespace(are_there=lambda users: [OWNER].count(*users))
            crawler = Crawler(connection, edge.http, edge.place, media_objects(edge.place), homes)  # type: ignore[arg-type]
            edge.origin.keys = known_by
            edge.origin.alive = {"/media/md_2/1/full-0a1b.webp"}  # what was shown before all of that
            monkeypatch.setattr(limits, "ERASURE_MEDIA", 3)  # of four
            assert crawler.media(OWNER, "") == (1, "md_3")
            edge.origin.alive = set()
            # a cache that is too busy for the first purge has copies for the second: one more look, as in an erasure
            becomes(lambda: crawler.media(OWNER, ""), (0, "md_3"))
            becomes(lambda: crawler.media(OWNER, "md_3"), (0, None))
            with monkeypatch.context() as keeping:
                keeping.setattr(MediaCaches, "purge", lambda *_: 2)  # it had some again
                assert crawler.media(OWNER, "md_3") == (2, None)
            assert crawler.rest(OWNER)[0] == 1
            homes.are_there = lambda _: 0
            assert crawler.rest(OWNER)[0] == 0
            # its owner's clock stands in 1970, and yet a fetch of before may be on its way
            monkeypatch.setattr(limits, "MEDIA_CACHE_FETCH_S", 600)
            ((_, _, erased_s, at),) = connection.execute(ERASING["erasures_running"], RUNNING).fetchall()
            assert not crawler.can_prove(erased_s)
            assert (
                connection.execute(ERASING["erasures_running"], RUNNING | {"at": at, "after": OWNER}).fetchall() == []
            )
        with psycopg.connect(addresses.postgres_dsns["millrace_social_propagation"], autocommit=True) as connection:
            ((*_, decided_s),) = connection.execute(LOOKS["propagation_due"], {"limit": 1}).fetchall()
            assert MediaCaches(edge.http, edge.place).may_fill(decided_s)
