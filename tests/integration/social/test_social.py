"""Social posts through the public surface, with every process of theirs: what is answered, seen, hidden, told."""

from __future__ import annotations

import json
import os
import signal
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from schemas.social import limits
from tests.eventually import becomes, eventually
from tests.gate import examples
from tests.services.counter_world import millrace
from tests.worlds.social_system import SocialUser, refused, social_system

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.worlds.public_system import PublicSystem

pytestmark = [pytest.mark.servers]
_HIDDEN_POSTS = """
insert into post (post_id, author_id, visibility, text, version, state, media_ids, root_id, is_pushed, created_at)
select 'po_' || %(word)s || n, %(author)s, 'private', %(word)s, 1, 'published', '{}', %(root)s, true, %(after)s + n
from generate_series(1, %(count)s) n
"""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    home: Path = tmp_path_factory.mktemp("social")
    with social_system(home, "social_fanout", services=("ingress", "clickhouse_sink")) as made:
        yield made


@pytest.fixture
def people(system: PublicSystem) -> list[SocialUser]:
    found = [SocialUser(system) for _ in range(3)]
    for user in found:
        assert user.read("/v1/me")["user_id"] == user.name  # it exists from its first call on
    return found


def test_whose_first_call_is_for_its_home_exists_from_then_on(system: PublicSystem, people: list[SocialUser]) -> None:
    newcomer = SocialUser(system)
    refused(people[0].get(f"/v1/users/{newcomer.name}"), 404, "not_found")
    assert newcomer.home == []
    assert people[0].read(f"/v1/users/{newcomer.name}")["user_id"] == newcomer.name


def test_a_post_is_published_once_edited_by_version_and_deleted_for_ever(people: list[SocialUser]) -> None:
    """Trap: a retry that comes after the deletion is told its first answer, and brings nothing back."""
    author, reader, _ = people
    first = author.send("POST", "/v1/posts", {"text": "one"}, key="k")
    again = author.send("POST", "/v1/posts", {"text": "one"}, key="k")
    assert (first.status_code, again.content, again.headers["idempotency-replayed"]) == (201, first.content, "true")
    post = first.json()["result"]
    path = f"/v1/posts/{post['post_id']}"
    refused(author.send("PATCH", path, {"text": "two"}), 428, "version_required")
    refused(reader.send("PATCH", path, {"text": "two"}, version=1), 404, "not_found")
    refused(author.send("PATCH", path, {"text": ""}, version=1), 422, "invalid_command")
    with ThreadPoolExecutor(4) as pool:
        moves = [("PATCH", {"text": "two"}), ("DELETE", None)] * 2
        answers = list(pool.map(lambda move: author.send(*move, version=1), [(m, path, p) for m, p in moves]))
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
    assert {a.json()["current_version"] for a in answers if a.status_code == 409} == {2}
    if author.get(path).status_code == 200:
        assert [v["text"] for v in reader.walk(f"{path}/versions", limit=1)] == ["two", "one"]
        author.do("DELETE", path, version=2)
    refused(author.get(path), 410, "gone")
    refused(author.send("PATCH", path, {"text": "x"}, version=author_version(author, path)), 410, "gone")
    unknown = reader.get(f"{path[:-3]}000")
    assert (reader.get(path).status_code, reader.get(path).content) == (404, unknown.content)
    assert author.send("POST", "/v1/posts", {"text": "one"}, key="k").content == first.content
    assert reader.send("POST", "/v1/posts", {"text": "one"}, key="k").json()["result"]["post_id"] != post["post_id"]
    operation = f"/v1/operations/{first.headers['x-request-id']}"
    assert [user.get(operation).status_code for user in (author, reader)] == [200, 404], "what the first answer was"
    assert author.ids(f"/v1/timelines/user/{author.name}") == []


def test_of_an_edit_and_a_deletion_of_one_version_one_wins_whoever_dies(
    system: PublicSystem, people: list[SocialUser]
) -> None:
    """Trap 2: through Kafka, again and again, while the owners are killed. Both answers are final, and retried to."""
    author, rounds = people[0], examples(gate=6, proof=300)

    def ended(method: str, path: str, payload: dict[str, str] | None) -> str:
        key = uuid.uuid4().hex

        def told() -> str | None:
            answer = author.send(method, path, payload, key, 1)
            said = "won" if answer.status_code == 200 else answer.json().get("code")
            return said if said in {"won", "version_conflict"} else None

        return eventually(told, 60)

    for n in range(rounds):
        path = f"/v1/posts/{author.post('first')['post_id']}"
        with ThreadPoolExecutor(2) as pool:
            moves = [pool.submit(ended, "PATCH", path, {"text": "second"}), pool.submit(ended, "DELETE", path, None)]
            if n == rounds // 2:
                for pid in system.pids("social_owner"):
                    os.kill(pid, signal.SIGKILL)
            edited, deleted = (move.result() for move in moves)
        assert {edited, deleted} == {"won", "version_conflict"}
        post_id = path.rpartition("/")[2]
        versions = system.rows("select version, text from post_version where post_id = %s order by 1", post_id)
        assert versions == ([(1, "first"), (2, "second")] if edited == "won" else [])
        left = system.rows("select version, text, state from post where post_id = %s", post_id)
        assert left == ([(2, "second", "published")] if edited == "won" else [(2, "", "deleted")])


def author_version(author: SocialUser, path: str) -> int:
    """The current version, which a conflict tells."""
    return int(refused(author.send("DELETE", path, version=99), 409, "version_conflict")["current_version"])


def test_only_users_call_and_only_as_far_as_their_scopes_go(system: PublicSystem) -> None:
    merchant = SocialUser(system)
    merchant.auth["Authorization"] = f"Bearer {system.token('m_1', ('posts:read', 'posts:write'))}"
    refused(merchant.get("/v1/me"), 403, "forbidden")
    refused(merchant.send("POST", "/v1/posts", {"text": "x"}), 403, "forbidden")
    refused(SocialUser(system, ("posts:read",)).send("POST", "/v1/posts", {"text": "x"}), 403, "forbidden")
    user = SocialUser(system)
    refused(user.get("/v1/payment_intents"), 403, "forbidden")
    # scopes alone make no merchant
    everywhere = SocialUser(system, ("payments:read", "payments:write", "limits:write"))
    intent = {"amount": 100, "currency": "USD", "payment_method": "tok_sim_approve"}
    refused(everywhere.send("POST", "/v1/payment_intents", intent), 403, "forbidden")
    refused(everywhere.get("/v1/payment_intents"), 403, "forbidden")
    refused(user.send("PUT", f"/v1/follows/{user.name}"), 422, "invalid_command")
    refused(user.send("PUT", "/v1/follows/u_nobody"), 404, "not_found")
    for wrong in ({"text": "x" * 5_001}, {"text": "a\u0000b"}, {"text": ""}, {"text": "x", "visibility": "all"}):
        refused(user.send("POST", "/v1/posts", wrong), 422, "invalid_command")
    assert user.post("two\nlines")["text"] == "two\nlines"
    assert refused(user.send("POST", "/v1/posts", {"text": "x", "media_ids": ["md_1"]}), 422, "media_not_ready")[
        "media_ids"
    ] == ["md_1"]


def test_a_stream_tells_what_comes_home_and_nothing_that_is_hidden(people: list[SocialUser]) -> None:
    author, fan, other = people
    fan.follow(author)
    assert fan.home == []
    with fan.http.stream("GET", "/v1/timelines/home/stream", headers=fan.auth) as stream:
        lines = stream.iter_lines()
        assert next(lines) == "retry: 1000"
        other.post("of somebody else")
        author.post("private", visibility="private")
        wanted = author.post("told")["post_id"]
        told = next(json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: "))
    assert told["post_id"] == wanted


def test_neither_old_versions_nor_pages_tell_of_what_is_hidden(system: PublicSystem, people: list[SocialUser]) -> None:
    """Of a version that was for fewer they alone know; a page is as it were if hidden posts were not there."""
    author, fan, stranger = people
    fan.follow(author)
    path = f"/v1/posts/{author.post('draft', visibility='private')['post_id']}"
    author.do("PATCH", path, {"text": "for friends", "visibility": "followers"}, version=1)
    author.do("PATCH", path, {"text": "for all", "visibility": "public"}, version=2)
    told = {user.name: [one["text"] for one in user.walk(f"{path}/versions")] for user in people}
    wanted = ["for all", "for friends", "draft"]
    assert told == {author.name: wanted, fan.name: wanted[:2], stranger.name: wanted[:1]}
    word, count = f"hidden{author.name}", sum(1 + margin for margin in limits.TIMELINE_MARGINS)
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn) as connection:
        root, after = fan.post("root"), time.time_ns() // 1_000
        lists = [f"/v1/timelines/thread/{root['post_id']}", f"/v1/timelines/user/{author.name}"]
        pages = [stranger.read(path, limit=1) for path in lists]
        said = {"author": author.name, "word": word, "count": count + 1, "root": root["post_id"], "after": after}
        connection.execute(_HIDDEN_POSTS, said)
        connection.commit()
        found = [user.read("/v1/search", q=said, limit=1) for user, said in ((stranger, word), (stranger, f"{word}x"))]
        assert len(author.ids("/v1/search", q=word)) == count + 1
        for path in lists:
            assert len([post for post in author.walk(path) if post["text"] == word]) == count + 1
        assert [stranger.read(path, limit=1) for path in lists] == pages
        assert not any(page["has_more"] for page in pages)
        connection.execute("delete from post where author_id = %s and text = %s", [author.name, word])
    assert found[0] == found[1]
    hidden, shown = fan.post("older"), fan.post("newer")
    becomes(lambda: shown["post_id"] in stranger.ids("/v1/timelines/public"), True)
    stranger.follow(fan)
    becomes(lambda: hidden["post_id"] in stranger.home, True)
    for post in (root, hidden):
        fan.do("PATCH", f"/v1/posts/{post['post_id']}", {"visibility": "private"}, version=1)
    page = stranger.read("/v1/timelines/home", limit=1)
    assert ([post["post_id"] for post in page["data"]], page["has_more"]) == ([shown["post_id"]], False)


def test_a_search_folds_words_and_forgets_those_of_before_an_edit(people: list[SocialUser]) -> None:
    author, fan, stranger = people
    word = f"x{uuid.uuid4().hex[:12]}"
    post = author.post(f"{word}\u00c9t\u00e9", visibility="public")
    path = f"/v1/posts/{post['post_id']}"
    asked = f"{word}ete".upper()
    assert [len(user.ids("/v1/search", q=asked)) for user in people] == [1, 1, 1]
    assert len(stranger.ids("/v1/search", q=f"{word}e\u0301te\u0301")) == 1
    author.do("PATCH", path, {"text": f"{word}h\u00eetre"}, version=1)
    assert [len(stranger.ids("/v1/search", q=said)) for said in (asked, f"{word}hitre")] == [0, 1]
    author.do("PATCH", path, {"visibility": "private"}, version=2)
    assert [len(user.ids("/v1/search", q=f"{word}HITRE")) for user in (author, fan, stranger)] == [1, 0, 0]


def test_a_write_that_names_another_version_changes_nothing(people: list[SocialUser]) -> None:
    """Of an edge or a reaction, too; what is not there yet has version 0."""
    author, fan, _ = people
    post, other = author.post("liked"), f"/v1/posts/{author.post('reposted')['post_id']}/reposts"
    likes, follow = f"/v1/posts/{post['post_id']}/likes", f"/v1/follows/{author.name}"
    block, mute = f"/v1/blocks/{author.name}", f"/v1/mutes/{author.name}"

    def conflict(method: str, path: str, current: int, payload: dict[str, Any] | None = None) -> None:
        for version in (current + 1, 99):
            problem = refused(fan.send(method, path, payload, version=version), 409, "version_conflict")
            assert problem["current_version"] == current, path

    for path in (likes, other):
        assert fan.do("DELETE", path)["state"] == "removed"  # what was never given is no write
        conflict("POST", path, 0)
        fan.do("POST", path, version=0)
        conflict("DELETE", path, 1)
        assert fan.do("DELETE", path, version=1)["version"] == 2
    for path in (mute, follow, block):
        conflict("PUT", path, 0)
        fan.do("PUT", path, version=0)
        conflict("PUT", path, 1)
        conflict("DELETE", path, 1) if path != block else None
    for path, current in ((block, 1), (mute, 1)):
        conflict("DELETE", path, current)
        fan.do("DELETE", path, version=current)
    assert fan.read(follow)["version"] == 2  # the block ended it
    author.do("PATCH", "/v1/me", {"is_private": True})
    fan.do("PUT", follow, version=2)
    request = f"/v1/follows/requests/{fan.name}"
    for word in ("accept", "reject"):
        refused(author.send("POST", f"{request}/{word}", version=2), 409, "version_conflict")
    author.do("POST", f"{request}/accept", version=3)
    conflict("POST", "/v1/posts", 0, {"text": "x"})
    conflict("POST", "/v1/me/exports", 0)
    conflict("POST", "/v1/me/erasure", 1, {"confirm": fan.name})
    conflict("POST", "/v1/media/uploads", 0, {"mime": "image/png", "bytes": 1, "sha256": "ab" * 32})
    conflict("POST", "/v1/moderation/reports", 0, {"object_id": author.name, "reason": "spam"})
    assert fan.read("/v1/me")["version"] == 1


def test_a_private_account_asks_and_a_block_ends_edges_both_ways(people: list[SocialUser]) -> None:
    author, fan, other = people
    fan.follow(author)
    author.do("PATCH", "/v1/me", {"is_private": True})
    post = author.post(f"for followers @{fan.name}")
    becomes(lambda: fan.home, [post["post_id"]])
    assert other.do("PUT", f"/v1/follows/{author.name}")["state"] == "requested"
    refused(other.get(f"/v1/posts/{post['post_id']}"), 404, "not_found")
    refused(other.send("POST", f"/v1/posts/{post['post_id']}/likes"), 404, "not_found")
    refused(fan.send("POST", f"/v1/posts/{post['post_id']}/reposts"), 422, "invalid_command")
    assert [edge["follower_id"] for edge in author.walk("/v1/follows/requests")] == [other.name]
    author.do("POST", f"/v1/follows/requests/{other.name}/accept")
    refused(author.send("POST", f"/v1/follows/requests/{other.name}/reject"), 404, "not_found")
    becomes(lambda: other.home, [post["post_id"]])  # brought by the backfill
    kinds = [told["kind"] for told in author.walk("/v1/notifications")]
    assert kinds == ["follow"] or "follow" in kinds
    assert [told["kind"] for told in fan.walk("/v1/notifications")] == ["mention"]
    mute = f"/v1/mutes/{author.name}"
    fan.do("PUT", mute)
    author.do("PUT", f"/v1/blocks/{fan.name}")
    refused(fan.send("DELETE", mute), 404, "not_found")
    assert (fan.home, fan.walk("/v1/notifications")) == ([], [])
    for path in (f"/v1/users/{author.name}", f"/v1/follows/{author.name}", f"/v1/posts/{post['post_id']}"):
        refused(fan.get(path), 404, "not_found")
    refused(fan.send("PUT", f"/v1/follows/{author.name}"), 404, "not_found")
    refused(fan.send("PUT", f"/v1/blocks/{author.name}"), 404, "not_found")
    author.do("DELETE", f"/v1/blocks/{fan.name}")
    assert fan.do("DELETE", mute)["version"] == 2
    assert fan.read(f"/v1/follows/{author.name}")["state"] == "removed"
    assert author.read("/v1/me")["followers"] == 1


def test_a_follow_and_a_block_that_cross_leave_no_edge(system: PublicSystem, people: list[SocialUser]) -> None:
    """Two owners' partitions, two users' rows: whichever is first, an active block has no active edge beside it."""
    author, fan, _ = people
    with ThreadPoolExecutor(2) as pool:
        for _ in range(15):
            crossing = [
                pool.submit(fan.send, "PUT", f"/v1/follows/{author.name}"),
                pool.submit(author.send, "PUT", f"/v1/blocks/{fan.name}"),
            ]
            assert {c.result().status_code for c in crossing} <= {200, 404}
            left = system.rows("select state from follow where follower_id = %s", fan.name)
            assert left in ([], [("removed",)])
            author.do("DELETE", f"/v1/blocks/{fan.name}")
    assert author.read("/v1/me")["followers"] == 0


def test_homes_are_exact_whatever_is_killed_and_however_many_follow(
    system: PublicSystem, people: list[SocialUser]
) -> None:
    """Posts while fan-out dies in the middle; a store of homes that was lost; and an author too big to push."""
    author, fan, late = people
    fan.follow(author)
    fan.post("makes its home")  # and reads it, so that it is kept
    own = fan.home
    made = [author.post("0")["post_id"]]
    for pid in system.pids("social_fanout"):
        os.kill(pid, signal.SIGKILL)
    made += [author.post(str(n))["post_id"] for n in range(1, 9)]
    expected = [*made[::-1], *own]
    becomes(lambda: fan.home, expected)
    assert fan.ids("/v1/timelines/home", limit=2) == expected
    late.follow(author)
    becomes(lambda: late.home, made[::-1])
    repost = late.post("own, and shown to whoever follows")
    fan.do("POST", f"/v1/posts/{repost['post_id']}/reposts")
    watcher = SocialUser(system)
    watcher.follow(fan)
    shown = [repost["post_id"], *own]
    becomes(lambda: watcher.home, shown)
    brought, *_ = watcher.read("/v1/timelines/home")["data"]
    assert (brought["reposted_by"], brought["why"]) == (fan.name, {"reason": "reposted", "user_id": fan.name})
    watcher.follow(late)
    brought, *_ = watcher.read("/v1/timelines/home")["data"]
    assert ("reposted_by" in brought, brought["why"]) == (False, {"reason": "followed", "user_id": late.name})
    watcher.do("DELETE", f"/v1/follows/{late.name}")
    assert late.read("/v1/timelines/home")["data"][0]["why"] == {"reason": "own", "user_id": late.name}
    fan.do("DELETE", f"/v1/posts/{repost['post_id']}/reposts")
    assert watcher.home == own
    watcher.do("PUT", f"/v1/mutes/{fan.name}")
    assert watcher.home == []
    page = fan.read("/v1/timelines/home", limit=3)
    for path, cursor in (("/v1/timelines/public", page["next_cursor"]), ("/v1/timelines/home", "AAAA")):
        refused(fan.get(path, cursor=cursor), 400, "malformed_request")
    refused(late.get("/v1/timelines/home", cursor=page["next_cursor"]), 400, "malformed_request")


def test_an_author_of_many_is_pulled_and_every_post_is_in_every_home_once(system: PublicSystem) -> None:
    """The count crosses the bound while it posts: each post says itself whether it was pushed.

    What is pulled has its place between what was pushed, on pages that pushed posts alone would fill.
    """
    star = SocialUser(system)
    star.read("/v1/me")
    made = [star.post("below")["post_id"]]
    fans = [SocialUser(system) for _ in range(limits.PUSH_FOLLOWERS_MAX + 4)]
    with ThreadPoolExecutor(8) as pool:
        posting = pool.submit(lambda: [star.post(f"crossing {n}")["post_id"] for n in range(20)])
        list(pool.map(lambda fan: fan.follow(star), fans))
        made += posting.result()
    assert star.read("/v1/me")["followers"] == len(fans)
    made.append(star.post("above")["post_id"])
    for fan in (fans[0], fans[-1]):
        becomes(lambda fan=fan: fan.home, made[::-1])  # type: ignore[misc]
    pushed = system.rows("select is_pushed, count(*) from post where author_id = %s group by 1 order by 1", star.name)
    assert [is_pushed for is_pushed, _ in pushed] == [False, True]
    fan, beside = fans[0], SocialUser(system)
    beside.read("/v1/me")
    fan.follow(beside)
    made += [author.post("by turns")["post_id"] for author in (star, beside, fan) * 3]
    becomes(lambda: fan.ids("/v1/timelines/home", limit=2), made[::-1])


def test_every_invariant_holds_and_a_search_finds_it(system: PublicSystem, people: list[SocialUser]) -> None:
    author = people[0]
    post = author.post("counted")

    def gaps() -> dict[str, tuple[int, Any, str]]:
        found = millrace(system, "check")["invariants"]
        return {i["id"]: (i["gaps"], i["sample"], i["note"]) for i in found if str(i["id"]).startswith("social_")}

    becomes(lambda: [(name, *found) for name, found in gaps().items() if found[0]], [])
    assert len(gaps()) >= 8
    assert post["post_id"] in author.ids("/v1/search", q="COUNTED")


def test_an_export_that_cannot_be_begun_is_a_problem_to_ask_again_after(
    system: PublicSystem, people: list[SocialUser]
) -> None:
    """Postgres goes away between the look for the export and its first line: no answer has begun then."""
    owner = people[0]
    post = owner.post("mine")
    path = f"/v1/me/exports/{owner.do('POST', '/v1/me/exports')['export_id']}/content"
    dsn = system.settings.addresses().postgres_superuser_dsn
    with ThreadPoolExecutor(1) as pool, psycopg.connect(dsn) as authors, psycopg.connect(dsn) as exports:
        exports.execute("lock table export in access exclusive mode")
        asked = pool.submit(owner.get, path)
        waits = "select from pg_locks where relation = 'export'::regclass and not granted"
        eventually(lambda: exports.execute(waits).fetchall(), 30, what="the look for the export waits")
        authors.execute("lock table author in access exclusive mode")
        exports.rollback()
        problem = refused(asked.result(), 503, "unavailable")
    assert problem["title"]
    lines = [json.loads(line) for line in owner.get(path).text.splitlines()]
    assert [line.get("post_id") for line in lines] == [None, post["post_id"]]
