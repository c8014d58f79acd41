"""What is refused of social commands, and what is no error: on the system that all services share."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from ingress.identity.issuer import SCOPES_OF_USERS
from tests.worlds.public_system import public
from tests.worlds.social_system import SocialUser, refused, sharing_a_client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.public_system import PublicSystem

__all__ = ["public"]  # the fixtures of this module
pytestmark = [pytest.mark.servers]


@pytest.fixture
def people(public: PublicSystem) -> Iterator[list[SocialUser]]:
    with sharing_a_client(public):
        found = [SocialUser(public) for _ in range(2)]
        for user in found:
            user.read("/v1/me")  # it exists from its first call on
        yield found


def test_the_end_of_what_never_was_is_no_error_and_no_news(people: list[SocialUser]) -> None:
    """Of follows, blocks and mutes as of likes: for whoever the other is there for, and nobody else."""
    author, fan = people
    for kind in ("follows", "blocks", "mutes"):
        ended = fan.do("DELETE", f"/v1/{kind}/{author.name}")
        assert (ended["state"], ended["version"]) == ("removed", 0)
        refused(fan.send("DELETE", f"/v1/{kind}/u_nobody"), 404, "not_found")
    refused(fan.get(f"/v1/follows/{author.name}"), 404, "not_found")
    assert fan.do("PUT", f"/v1/follows/{author.name}")["version"] == 1
    author.do("PUT", f"/v1/blocks/{fan.name}")
    for kind in ("blocks", "mutes"):
        refused(fan.send("DELETE", f"/v1/{kind}/{author.name}"), 404, "not_found")


NOT_WELL_FORMED: tuple[tuple[str, str, Any], ...] = (
    ("POST", "/v1/posts", {"idempotency_key": "k", "payload": {"text": ""}}),
    ("POST", "/v1/posts", {"payload": {"text": "without a key"}}),
    ("PUT", "/v1/follows/...", {"idempotency_key": "k", "payload": {}}),
    ("PATCH", "/v1/me", ["no envelope"]),
    ("GET", "/v1/timelines/home?limit=0", None),
    ("GET", "/v1/timelines/public?limit=101", None),
    ("GET", "/v1/timelines/home/stream?after=x&after=y", None),
    ("GET", "/v1/notifications?limit=x", None),
)


def test_a_user_exists_from_its_first_call_on_and_is_gone_with_its_last_whatever_they_say(
    public: PublicSystem, people: list[SocialUser]
) -> None:
    """Also where the call is not well-formed."""
    friend, _ = people

    def called(user: SocialUser, method: str, path: str, body: Any) -> int:
        headers = {"authorization": f"Bearer {public.token(user.name, SCOPES_OF_USERS, kind='user')}"}
        return httpx.request(method, public.base_url + path, json=body, headers=headers, trust_env=False).status_code

    for said in NOT_WELL_FORMED:
        user = SocialUser(public)
        refused(friend.get(f"/v1/users/{user.name}"), 404, "not_found")
        assert called(user, *said) in (400, 404, 422), said
        assert friend.read(f"/v1/users/{user.name}")["version"] == 1, said
        user.do("POST", "/v1/me/erasure", {"confirm": user.name})
        assert called(user, *said) == 410, said


def test_a_wrong_value_is_named_as_it_was_sent(public: PublicSystem, people: list[SocialUser]) -> None:
    """By its place in the envelope, whoever found it."""
    author, fan = people
    kept = author.post("kept", visibility="followers")["post_id"]
    moderator = SocialUser(public, scopes=(*SCOPES_OF_USERS, "moderator"))
    said = {"object_id": kept, "reason": "x", "policy_version": 1}
    for field, answer in (
        ("text", author.send("POST", "/v1/posts", {"text": ""})),
        ("text", author.send("PATCH", f"/v1/posts/{kept}", {"text": ""}, version=1)),
        ("text", author.send("POST", "/v1/posts", {"text": " \n\u200b"})),
        ("text", author.send("PATCH", f"/v1/posts/{kept}", {"text": "\u3164"}, version=1)),
        ("quote_of", author.send("POST", "/v1/posts", {"text": "x", "quote_of": kept})),
        (
            "label",
            moderator.send("POST", "/v1/moderation/decisions", said | {"decision": "none", "label": "none such"}),
        ),
        ("confirm", author.send("POST", "/v1/me/erasure", {"confirm": fan.name})),
    ):
        problem = refused(answer, 422, "invalid_command")
        assert [one["field"] for one in problem["errors"]] == [f"payload.{field}"]
    problem = refused(author.send("POST", "/v1/posts", {"text": "x", "media_ids": ["md_1"]}), 422, "media_not_ready")
    assert (problem["media_ids"], "with a new key" in problem["detail"]) == (["md_1"], True)


def test_who_is_suspended_hears_why_and_what_it_can_do(public: PublicSystem, people: list[SocialUser]) -> None:
    author, _ = people
    moderator = SocialUser(public, scopes=(*SCOPES_OF_USERS, "moderator"))
    said = {"object_id": author.name, "decision": "remove", "reason": "abuse", "policy_version": 3}
    made = moderator.do("POST", "/v1/moderation/decisions", said)
    problem = refused(author.send("POST", "/v1/posts", {"text": "x"}), 403, "forbidden")
    assert (problem["title"], "appeal may be made" in problem["detail"]) == ("The caller may not do this", True)
    told = author.read("/v1/notifications")["data"][0]["decision_id"]
    assert told == made["decision_id"]
    assert author.do("POST", "/v1/moderation/appeals", {"decision_id": told, "text": "why"})["state"] == "open"


def test_who_is_suspended_moderates_nothing(public: PublicSystem, people: list[SocialUser]) -> None:
    """What it had is nobody else's business, and what was decided about itself it reads as everybody does."""
    author, _ = people
    scopes = (*SCOPES_OF_USERS, "moderator")
    moderator, other = SocialUser(public, scopes=scopes), SocialUser(public, scopes=scopes)
    reported, judged = author.post("seen")["post_id"], author.post("judged")["post_id"]
    other.do("POST", "/v1/moderation/reports", {"object_id": reported, "reason": "spam"})
    said = {"decision": "remove", "reason": "abuse", "policy_version": 3}
    about_author = moderator.do("POST", "/v1/moderation/decisions", said | {"object_id": judged})
    appeal = author.do("POST", "/v1/moderation/appeals", {"decision_id": about_author["decision_id"], "text": "why"})
    made = other.do("POST", "/v1/moderation/decisions", said | {"object_id": moderator.name})
    path = f"/v1/moderation/appeals/{appeal['appeal_id']}/decide"
    verdict = {"outcome": "upheld", "reason": "so", "policy_version": 3}
    for answer in (
        moderator.get("/v1/moderation/queue"),
        moderator.get(f"/v1/moderation/decisions/{made['decision_id']}/propagation"),
        moderator.send("POST", "/v1/moderation/decisions", said | {"object_id": reported}),
        moderator.send("POST", f"/v1/moderation/queue/{reported}/assign", {}),
        moderator.send("POST", path, verdict),
    ):
        assert "suspended" in refused(answer, 403, "forbidden")["detail"]
    refused(moderator.get(f"/v1/moderation/decisions/{about_author['decision_id']}"), 404, "not_found")
    assert moderator.read(f"/v1/moderation/decisions/{made['decision_id']}")["object_id"] == moderator.name
    assert moderator.read("/v1/moderation/appeals")["data"] == []
    assert author.get(f"/v1/posts/{reported}").status_code == 200


def test_a_decision_that_would_be_over_at_once_is_none(public: PublicSystem, people: list[SocialUser]) -> None:
    author, _ = people
    moderator = SocialUser(public, scopes=(*SCOPES_OF_USERS, "moderator"))
    post = author.post("seen")["post_id"]
    said = {"object_id": post, "decision": "limit", "reason": "abuse", "policy_version": 3}
    past = said | {"expires_at": (datetime.now(UTC) - timedelta(seconds=1)).isoformat()}
    problem = refused(moderator.send("POST", "/v1/moderation/decisions", past), 422, "invalid_command")
    assert [one["field"] for one in problem["errors"]] == ["payload.expires_at"]
    assert moderator.do("POST", "/v1/moderation/decisions", said)["version"] == 1, "nothing was decided before"


def test_what_has_no_place_of_its_own_leads_nowhere(public: PublicSystem, people: list[SocialUser]) -> None:
    """A report is read in the queue of moderators alone: its answer names no address that is a 404."""
    author, other = people
    post = author.send("POST", "/v1/posts", {"text": "seen"})
    assert other.get(post.headers["location"]).status_code == 200
    said = {"object_id": post.json()["result"]["post_id"], "reason": "spam"}
    report = other.send("POST", "/v1/moderation/reports", said)
    assert (report.status_code, "location" in report.headers) == (201, False)


def test_what_is_ones_own_and_deleted_is_gone_whatever_is_done_with_it(people: list[SocialUser]) -> None:
    """For everybody else it is not there."""
    author, other = people
    post = author.post("seen")["post_id"]
    author.do("DELETE", f"/v1/posts/{post}", version=1)
    acts = [(method, f"/v1/posts/{post}/{kind}", {}) for method in ("POST", "DELETE") for kind in ("likes", "reposts")]
    acts += [("POST", "/v1/posts", {"text": "x", field: post}) for field in ("reply_to", "quote_of")]
    for act in acts:
        refused(author.send(*act), 410, "gone")
        refused(other.send(*act), 404, "not_found")


def test_commands_of_one_body_are_decided_one_after_the_other(people: list[SocialUser]) -> None:
    """What the first of them hid is hidden from the next, though both are of one batch."""
    author, fan = people
    fan.follow(author)
    post, narrow = author.post("seen")["post_id"], author.post("for fewer", visibility="followers")["post_id"]

    def told(*lines: tuple[str, dict[str, object]]) -> list[int]:
        body = [{"operation": what, "idempotency_key": uuid.uuid4().hex, "payload": said} for what, said in lines]
        answer = fan.http.post(
            "/v1/commands",
            content="".join(f"{json.dumps(line)}\n" for line in body),
            headers=fan.auth | {"Content-Type": "application/x-ndjson"},
        )
        assert answer.status_code == 200, answer.text
        return [json.loads(line)["status"] for line in answer.text.splitlines()]

    like = f"POST /v1/posts/{narrow}/likes"
    assert told((like, {}), (f"DELETE /v1/follows/{author.name}", {}), (like, {})) == [200, 200, 404]
    hidden = [(f"POST /v1/posts/{post}/{kind}", {}) for kind in ("likes", "reposts")]
    hidden += [("POST /v1/posts", {"text": "x", field: post}) for field in ("reply_to", "quote_of")]
    assert told((f"PUT /v1/blocks/{author.name}", {}), *hidden) == [200, 404, 404, 404, 404]
