"""Why a post is seen, or is not: told to its author in full, to others nothing of what they may not know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.worlds.social_system import SocialUser, refused, social_system

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.public_system import PublicSystem

pytestmark = pytest.mark.servers
_MEDIUM = """
with held as (
    insert into media (media_id, owner_id, mime, size, sha256, parts, expires_in_s, scan_state, attached_post_id, version,
                       created_at, updated_at)
    values (%(medium)s, %(owner)s, 'image/png', 1, repeat('a', 64), 1, 60, 'scanning', %(post)s, 1, 1, 1))
update post set media_ids = array[%(medium)s] where post_id = %(post)s
"""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    with social_system(tmp_path_factory.mktemp("why")) as made:
        yield made


@pytest.fixture
def people(system: PublicSystem) -> list[SocialUser]:
    found = [SocialUser(system), SocialUser(system), SocialUser(system, ("posts:read", "posts:write", "moderator"))]
    for user in found:
        user.read("/v1/me")
    return found


def why(user: SocialUser, post_id: str) -> dict[str, Any]:
    return user.read(f"/v1/posts/{post_id}/why")


def reasons(user: SocialUser, post_id: str) -> list[str]:
    return [one["reason"] for one in why(user, post_id)["reasons"]]


def decide(moderator: SocialUser, object_id: str, decision: str, **fields: Any) -> str:
    given = {"object_id": object_id, "decision": decision, "reason": "against the rules", "policy_version": 1}
    return str(moderator.do("POST", "/v1/moderation/decisions", given | fields)["decision_id"])


def test_a_stranger_hears_the_same_of_all_that_is_not_there_for_it(
    people: list[SocialUser], system: PublicSystem
) -> None:
    """Missing, for fewer, behind a block of either side, taken down, deleted, of somebody who is suspended."""
    author, stranger, moderator = people
    blocker, blocked, suspended = (SocialUser(system) for _ in range(3))
    hidden = ["po_nobody", author.post("x", visibility="followers")["post_id"]]
    hidden.append(author.post("x", visibility="private")["post_id"])
    hidden += [user.post("x")["post_id"] for user in (blocker, blocked, suspended)]
    gone, removed = (author.post("x")["post_id"] for _ in range(2))
    assert reasons(stranger, removed) == ["not_followed"]
    blocker.do("PUT", f"/v1/blocks/{stranger.name}")
    stranger.do("PUT", f"/v1/blocks/{blocked.name}")
    author.do("DELETE", f"/v1/posts/{gone}", version=1)
    decide(moderator, removed, "remove")
    decide(moderator, suspended.name, "remove")
    told = set()
    for post_id in (*hidden, gone, removed):
        answer = stranger.get(f"/v1/posts/{post_id}/why")
        told.add((answer.status_code, answer.text.replace(post_id, "ID")))
    assert told == {
        (
            200,
            '{"object":"post_why","post_id":"ID","is_seen":false,"is_in_home":false,'
            '"reasons":[{"reason":"not_available"}]}',
        )
    }
    refused(stranger.get("/v1/posts/no%20id/why"), 404, "not_found")


def test_what_brings_a_post_home_or_keeps_it_out_is_ones_own_doing(people: list[SocialUser]) -> None:
    author, reader, reposter = people
    post = author.post("for all")["post_id"]
    told = {"object": "post_why", "post_id": post, "is_seen": True}
    said = [{"reason": "not_followed", "user_id": author.name}]
    assert why(reader, post) == told | {"is_in_home": False, "reasons": said}
    reader.follow(reposter)
    reposter.do("POST", f"/v1/posts/{post}/reposts")
    said = [{"reason": "reposted", "user_id": reposter.name}]
    assert why(reader, post) == told | {"is_in_home": True, "reasons": said}
    reader.follow(author)
    assert reasons(reader, post) == ["followed"]
    reader.do("PUT", f"/v1/mutes/{author.name}")
    assert (reasons(reader, post), why(reader, post)["is_in_home"]) == (["muted"], False)
    assert reader.home == []


def test_an_author_hears_who_else_sees_it_and_where_to_appeal(people: list[SocialUser], system: PublicSystem) -> None:
    author, _, moderator = people
    kept = [author.post("x", visibility=one)["post_id"] for one in ("followers", "private", "public")]
    assert [reasons(author, one) for one in kept] == [["own", "followers_only"], ["own", "only_you"], ["own"]]
    decision = decide(moderator, kept[2], "remove")
    told = {"object_id": kept[2], "decision_id": decision, "reason": "taken_down"}
    assert why(author, kept[2])["reasons"][1:] == [told | {"appeal": None, "may_appeal": True}]
    author.do("POST", "/v1/moderation/appeals", {"decision_id": decision, "text": "no"})
    assert why(author, kept[2])["reasons"][1:] == [told | {"appeal": "open", "may_appeal": False}]
    decide(moderator, kept[1], "label", label="spoiler")
    assert reasons(author, kept[1]) == ["own", "labelled", "only_you"]
    author.do("PATCH", "/v1/me", {"is_private": True})
    post = author.post("x")["post_id"]
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn) as connection:
        connection.execute(_MEDIUM, {"medium": f"md_{post}", "owner": author.name, "post": post})
    assert why(author, post)["reasons"][1:] == [
        {"reason": "media_waits", "media_id": f"md_{post}", "scan_state": "scanning"},
        {"reason": "private_account"},
    ]
    suspended = {
        "reason": "taken_down",
        "object_id": author.name,
        "decision_id": decide(moderator, author.name, "remove"),
    }
    told = why(author, post)
    assert (told["is_seen"], told["is_in_home"]) == (False, False), "nobody sees it, its author neither"
    assert suspended | {"appeal": None, "may_appeal": True} in told["reasons"]
    refused(author.get(f"/v1/posts/{post}"), 404, "not_found")
    decide(moderator, author.name, "none")
    author.do("DELETE", f"/v1/posts/{kept[0]}", version=1)
    deleted = {"is_seen": False, "is_in_home": False, "reasons": [{"reason": "deleted"}]}
    assert why(author, kept[0]) == {"object": "post_why", "post_id": kept[0]} | deleted
