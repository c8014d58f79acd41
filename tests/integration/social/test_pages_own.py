"""What users ask of the service at the pages: why they see a post, reports, copies of their data, what was decided about them."""

from __future__ import annotations

import json
import re
import uuid
from typing import TYPE_CHECKING

import pytest

from tests.integration.social.test_desk import ready_medium
from tests.worlds.page_user import PageUser, ann, bob, page_users
from tests.worlds.public_system import public

if TYPE_CHECKING:
    from tests.worlds.public_system import PublicSystem

__all__ = ["ann", "bob", "page_users", "public"]  # the fixtures of this module
pytestmark = pytest.mark.servers


def test_users_posts_answers_and_media_are_reported_as_far_as_they_are_seen(
    ann: PageUser, bob: PageUser, public: PublicSystem
) -> None:
    medium = ready_medium(ann)
    post = ann.post("first", media_ids=medium)
    answer, hidden = ann.post("second", reply_to=post), ann.post("third", visibility="private")
    assert f"/app/report?post={answer}" in bob.get(f"/app/posts/{post}").text, "of an answer in a thread"
    assert f"/app/report?post={post}&amp;medium={medium}" in bob.get(f"/app/posts/{post}").text
    assert f"/app/report?user={ann.name}" in bob.get(f"/app/users/{ann.name}").text
    reported = {
        ann.name: {"user": ann.name},
        answer: {"post": answer},
        medium: {"post": post, "medium": medium},
    }
    for about in reported.values():
        said = bob.press("/app/report", reason="abuse", comment="look", **about)
        assert (said.status_code, "Moderators will look at it" in said.text) == (200, True), said.text
    told = public.rows("select object_id from moderation_report where user_id = %s and comment = 'look'", bob.name)
    assert {object_id for (object_id,) in told} == set(reported)
    for about in ({"post": hidden}, {"post": post, "medium": "md_other"}, {"user": "u_nobody"}, {}):
        assert bob.press("/app/report", reason="spam", **about).status_code == 404, about
        assert bob.http.get("/app/report", params=about).status_code == 404, about


def test_a_copy_of_ones_data_is_asked_for_and_fetched_by_nobody_else(ann: PageUser, bob: PageUser) -> None:
    assert "You have asked for none yet." in ann.get("/app/exports").text
    post = ann.post("mine")
    assert ann.done("/app/exports") == "/app/exports"
    (way,) = re.findall(r'href="(/app/exports/[^"]+/content)"', ann.get("/app/exports").text)
    answer = ann.get(way)
    assert answer.headers["content-disposition"] == 'attachment; filename="millrace-export.ndjson"'
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert post in [line.get("post_id") for line in lines]
    assert bob.get(way).status_code == 404


def test_what_was_decided_is_listed_with_what_came_of_the_appeal(
    ann: PageUser, bob: PageUser, public: PublicSystem
) -> None:
    assert "Nothing was ever decided about you." in ann.get("/app/appeals").text
    post, other = ann.post("against the rules"), ann.post("too long")
    token = public.token("u_moderator", ("posts:read", "posts:write", "moderator"), kind="user")
    made = []
    for object_id in (post, other):
        given = {"object_id": object_id, "decision": "limit", "reason": "No.", "policy_version": 1}
        headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": uuid.uuid4().hex, "Prefer": "wait=30"}
        answer = ann.http.post("/v1/moderation/decisions", json=given, headers=headers)
        made.append(answer.json()["result"]["decision_id"])
    appealed = ann.press(f"/app/decisions/{made[0]}/appeal", decision_id=made[0], text="I did not.")
    assert appealed.status_code == 200, appealed.text
    badges = re.findall(
        r'decisions/(mo_[^"]+)".*?<span class="badge">([^<]+)</span>', ann.get("/app/appeals").text, re.DOTALL
    )
    assert badges == [(made[1], "in force"), (made[0], "appealed")]
    assert made[0] not in bob.get("/app/appeals").text


def test_a_page_says_why_a_post_is_seen_and_of_one_that_is_not_there_no_more_than_that(
    ann: PageUser, bob: PageUser
) -> None:
    shown, hidden = ann.post("for all"), ann.post("for me", visibility="private")
    assert f"/app/posts/{shown}/why" in bob.get(f"/app/posts/{shown}").text
    assert (
        f'You follow neither <a class="person" href="/app/users/{ann.name}">' in bob.get(f"/app/posts/{shown}/why").text
    )
    assert "Only you see it." in ann.get(f"/app/posts/{hidden}/why").text
    assert f'href="/app/posts/{hidden}/why"' in bob.get(f"/app/posts/{hidden}").text
    told = {bob.get(f"/app/posts/{one}/why").text.partition("<main")[2] for one in (hidden, "po_nobody")}
    assert len(told) == 1
    assert "It is not there for you." in told.pop()
