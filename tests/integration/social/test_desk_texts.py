"""Texts at the moderation desk: of a post that is removed, or for fewer, for who judges it, each look audited."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.integration.social.test_desk import DESK, moderator, pressed
from tests.integration.social.test_desk_pictures import judge, looks, second
from tests.worlds.page_user import PageUser, PageUsers, ann, bob, page_users
from tests.worlds.payments.console_world import Visitor, Visitors, visitors
from tests.worlds.public_system import public

if TYPE_CHECKING:
    from tests.worlds.public_system import PublicSystem

__all__ = ["ann", "bob", "judge", "page_users", "public", "second", "visitors"]  # the fixtures of this module
pytestmark = pytest.mark.servers
REMOVE = {"decision": "remove", "reason": "It is abuse.", "policy_version": "7"}


def read(visitor: Visitor, post: str) -> list[tuple[str, str]]:
    """The versions that this moderator may judge by, with their texts; none where the desk has no such page."""
    answer = visitor.get(f"{DESK}/objects/{post}/text")
    assert answer.status_code in (200, 404), answer.text
    assert answer.headers["cache-control"] == "no-store" or answer.status_code == 404
    return re.findall(r'aria-label="Text of version (\d+)">([^<]*)<', answer.text)


def is_offered(visitor: Visitor, post: str) -> bool:
    return f'href="{DESK}/objects/{post}/text"' in visitor.get(f"{DESK}/objects/{post}").text


def appealed(public: PublicSystem, author: PageUser, post: str) -> str:
    """The appeal of the author against the last decision about its post."""
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_operator"]) as connection:
        query = "select decision_id from moderation_decision where object_id = %s order by version desc limit 1"
        ((decision,),) = connection.execute(query, [post]).fetchall()
        assert (
            author.press(f"/app/posts/{post}/appeal", decision_id=decision, text="It is not.").status_code,
            connection.execute("select state from moderation_appeal where decision_id = %s", [decision]).fetchall(),
        ) == (200, [("open",)])
        ((appeal,),) = connection.execute(
            "select appeal_id from moderation_appeal where decision_id = %s", [decision]
        ).fetchall()
    return str(appeal)


def test_who_may_decide_an_appeal_reads_what_was_removed_and_nobody_else(
    visitors: Visitors, public: PublicSystem, ann: PageUser, bob: PageUser, judge: Visitor, second: Visitor
) -> None:
    """As it is, and as it was when it was decided about; what else its author wrote stays hidden."""
    post, own = ann.post("First <i>words</i>"), moderator(visitors, public, ann.name)
    for version, text in enumerate(("Second words", "Third words"), 1):
        ann.done(f"/app/posts/{post}/edit", text=text, visibility="public", version=str(version))
        if version == 1:
            label = {"decision": "label", "label": "x", "reason": "y", "policy_version": "7"}
            assert pressed(judge, f"{DESK}/objects/{post}/decide", **label) == 303
    assert (is_offered(second, post), read(second, post)) == (False, [])
    assert pressed(judge, f"{DESK}/objects/{post}/decide", **REMOVE) == 303
    ann.done(f"/app/posts/{post}/edit", text="Fourth words", visibility="public", version="3")
    assert (is_offered(second, post), read(second, post)) == (False, []), "no appeal waits"
    appeal = appealed(public, ann, post)
    before = looks(public, post)
    assert is_offered(second, post)
    page = second.get(f"{DESK}/objects/{post}").text
    assert ("Fourth words" in page, 'name="object_version" value="4"' in page) == (False, True)
    assert looks(public, post) == before, "nothing is read unasked"
    assert read(second, post) == [("4", "Fourth words"), ("3", "Third words"), ("2", "Second words")]
    assert looks(public, post) == sorted([*before, ("user:u_second", "done")])
    for other in (judge, own):
        assert (is_offered(other, post), read(other, post)) == (False, []), "who decided, or whose it is, decides none"
    assert ("user:u_judge", "refused") in looks(public, post)
    where = f"{DESK}/objects/{post}/text"
    assert (visitors().get(where).status_code, visitors("m_ann").get(where).status_code) == (303, 403)
    assert bob.get(f"/app/posts/{post}").status_code == 404
    upheld = {"outcome": "upheld", "reason": "It is.", "policy_version": "7"}
    assert pressed(second, f"{DESK}/appeals/{appeal}", **upheld) == 303
    assert (is_offered(second, post), read(second, post)) == (False, []), "the appeal is over"


def test_who_has_the_case_reads_what_is_for_fewer_and_nothing_that_is_deleted_or_erased(
    ann: PageUser, bob: PageUser, page_users: PageUsers, judge: Visitor, second: Visitor
) -> None:
    kept, deleted = ann.post("Kept"), ann.post("Deleted")
    for post in (kept, deleted):
        assert bob.press(f"/app/posts/{post}/report", reason="abuse").status_code == 200
        ann.done(f"/app/posts/{post}/edit", text="For friends", visibility="followers", version="1")
        assert read(judge, post) == []
        assert pressed(judge, f"{DESK}/objects/{post}/assign") == 303
        assert (is_offered(judge, post), read(judge, post)) == (True, [("2", "For friends")])
        assert (is_offered(second, post), read(second, post)) == (False, []), "nobody else"
    ann.done(f"/app/posts/{deleted}/delete", version="2")
    assert (is_offered(judge, deleted), read(judge, deleted)) == (False, [])
    assert read(judge, kept) == [("2", "For friends")]
    assert ann.done("/app/erasure", confirm=ann.name) == "/app/sign-in"
    assert (is_offered(judge, kept), read(judge, kept)) == (False, [])


def test_what_one_sees_anyhow_is_not_offered_again_but_a_version_for_fewer_that_was_decided_about(
    public: PublicSystem, ann: PageUser, judge: Visitor, second: Visitor
) -> None:
    post = ann.post("First words")
    limit = {"decision": "limit", "reason": "y", "policy_version": "7"}
    assert pressed(judge, f"{DESK}/objects/{post}/decide", **limit) == 303
    appealed(public, ann, post)
    assert (is_offered(second, post), read(second, post)) == (False, [("1", "First words")])
    ann.done(f"/app/posts/{post}/edit", text="For friends", visibility="followers", version="1")
    assert pressed(judge, f"{DESK}/objects/{post}/decide", **limit) == 303
    ann.done(f"/app/posts/{post}/edit", text="Third words", visibility="public", version="2")
    appealed(public, ann, post)
    page = second.get(f"{DESK}/objects/{post}").text
    assert ("Third words" in page, "For friends" in page) == (True, False)
    assert is_offered(second, post)
    assert read(second, post) == [("3", "Third words"), ("2", "For friends"), ("1", "First words")]
