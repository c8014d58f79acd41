"""Who is named in a text is told so as long as it holds: an edit withdraws it, and no late word brings it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ingress.identity.issuer import SCOPES_OF_USERS
from schemas.social import limits
from tests.migrated import database_before, upgrade
from tests.worlds.public_system import public
from tests.worlds.social_system import SocialUser, sharing_a_client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import World
    from tests.worlds.public_system import PublicSystem

__all__ = ["public"]  # the fixtures of this module
pytestmark = [pytest.mark.servers]
MENDED_BY = "0334_mentions_withdrawn.sql"
_PLANT = """
with put as (
    insert into post (post_id, author_id, visibility, text, version, state, media_ids, root_id, is_pushed, created_at)
    values (%(id)s, 'u_author', 'public', %(text)s, %(version)s, 'published', '{}', %(id)s, true, 1))
insert into notification (notification_id, user_id, kind, actor_id, post_id, created_at)
values (%(id)s, 'u_1', %(kind)s, 'u_author', %(id)s, 1)
"""
#: a post by what became of it: its text, its version, and what the user was told
_OF_BEFORE = {
    "named": ("and @u_1.", 2, "mention"),
    "named_no_more": ("and @u_12, u_1, x@u_1", 2, "mention"),
    "never_edited": ("@u_1", 1, "mention"),
    "answered": ("nobody", 2, "reply"),
}


@pytest.fixture
def people(public: PublicSystem) -> Iterator[list[SocialUser]]:
    with sharing_a_client(public):
        found = [SocialUser(public) for _ in range(3)]
        for user in found:
            user.read("/v1/me")  # it exists from its first call on
        yield found


def told(user: SocialUser) -> list[tuple[str, str]]:
    """What a user is told, the newest first."""
    return [(one["kind"], one["post_id"]) for one in user.walk("/v1/notifications")]


def test_an_edit_withdraws_a_mention_and_no_late_word_brings_it_back(people: list[SocialUser]) -> None:
    """Trap: the retry of an older version comes after the edit. Named again the user is told again, once."""
    author, named, other = people
    said: dict[str, Any] = {"text": f"@{named.name} and @{other.name}"}
    first = author.send("POST", "/v1/posts", said, key="first").json()["result"]["post_id"]
    second = author.post(f"@{named.name}")["post_id"]
    one = ("mention", first)
    assert (told(named), told(other)) == ([("mention", second), one], [one])
    path = f"/v1/posts/{first}"
    assert author.send("PATCH", path, {"text": f"@{other.name} alone"}, "out", version=1).status_code == 200
    assert (told(named), told(other)) == ([("mention", second)], [one])
    for again in (author.send("POST", "/v1/posts", said, "first"), author.send("PATCH", path, said, version=1)):
        assert again.status_code in {201, 409}, again.text  # its first answer; the version that lost
    assert told(named) == [("mention", second)]
    author.do("PATCH", path, said, version=2)
    for n in range(2):
        author.do("PATCH", path, {"text": f"{n} @{named.name} @{other.name}"}, version=3 + n)
        assert (told(named), told(other)) == ([one, ("mention", second)], [one])
    author.do("PATCH", path, {"visibility": "private"}, version=5)
    assert (told(named), told(other)) == ([("mention", second)], [])
    author.do("DELETE", path, version=6)
    assert told(named) == [("mention", second)]


def test_who_was_told_keeps_it_while_the_text_names_them_anywhere(people: list[SocialUser]) -> None:
    """An edit puts so many others before them that it would tell them no more; and it ends all the same."""
    author, named, _ = people
    crowd = " ".join(f"@{author.name}{n}" for n in range(limits.POST_MENTIONS_MAX))
    post = author.post(f"@{named.name}")["post_id"]
    author.do("PATCH", f"/v1/posts/{post}", {"text": f"{crowd} @{named.name}"}, version=1)
    assert told(named) == [("mention", post)]
    author.do("PATCH", f"/v1/posts/{post}", {"text": crowd}, version=2)
    assert told(named) == []


def test_a_decision_that_is_reversed_brings_mentions_back_and_the_next_edit_withdraws_them(
    public: PublicSystem, people: list[SocialUser]
) -> None:
    author, named, _ = people
    moderator = SocialUser(public, (*SCOPES_OF_USERS, "moderator"))
    post = author.post(f"@{named.name}")["post_id"]
    decision = {"object_id": post, "reason": "x", "policy_version": 1}
    moderator.do("POST", "/v1/moderation/decisions", decision | {"decision": "remove"})
    author.do("PATCH", f"/v1/posts/{post}", {"text": "for nobody"}, version=1)
    assert told(named) == []
    moderator.do("POST", "/v1/moderation/decisions", decision | {"decision": "none"})
    assert told(named) == [("mention", post)]
    author.do("PATCH", f"/v1/posts/{post}", {"text": "for nobody at all"}, version=2)
    assert told(named) == []


def test_what_earlier_releases_left_is_withdrawn_by_the_upgrade(stack: World) -> None:
    with database_before(stack.addresses.postgres_superuser_dsn, MENDED_BY) as connection:
        connection.execute("insert into author (user_id) values ('u_author')")
        for name, (text, version, kind) in _OF_BEFORE.items():
            connection.execute(_PLANT, {"id": name, "text": text, "version": version, "kind": kind})
        upgrade(connection, MENDED_BY)
        left = connection.execute("select notification_id from notification").fetchall()
    assert {row[0] for row in left} == _OF_BEFORE.keys() - {"named_no_more"}
