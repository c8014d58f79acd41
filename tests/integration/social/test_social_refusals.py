"""What is refused of social commands, and what is no error: on the system that all services share."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

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


def test_a_decision_that_would_be_over_at_once_is_none(public: PublicSystem, people: list[SocialUser]) -> None:
    author, _ = people
    moderator = SocialUser(public, scopes=(*SCOPES_OF_USERS, "moderator"))
    post = author.post("seen")["post_id"]
    said = {"object_id": post, "decision": "limit", "reason": "abuse", "policy_version": 3}
    past = said | {"expires_at": (datetime.now(UTC) - timedelta(seconds=1)).isoformat()}
    problem = refused(moderator.send("POST", "/v1/moderation/decisions", past), 422, "invalid_command")
    assert [one["field"] for one in problem["errors"]] == ["expires_at"]
    assert moderator.do("POST", "/v1/moderation/decisions", said)["version"] == 1, "nothing was decided before"


def test_what_has_no_place_of_its_own_leads_nowhere(public: PublicSystem, people: list[SocialUser]) -> None:
    """A report is read in the queue of moderators alone: its answer names no address that is a 404."""
    author, other = people
    post = author.send("POST", "/v1/posts", {"text": "seen"})
    assert other.get(post.headers["location"]).status_code == 200
    said = {"object_id": post.json()["result"]["post_id"], "reason": "spam"}
    report = other.send("POST", "/v1/moderation/reports", said)
    assert (report.status_code, "location" in report.headers) == (201, False)
