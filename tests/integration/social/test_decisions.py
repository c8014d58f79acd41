"""What decisions are bound to, and several of them on one object, through the public surface."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from ingress.identity.issuer import SCOPES_OF_USERS
from schemas.social import limits
from tests.eventually import becomes, eventually, patient
from tests.worlds.social_system import SocialUser, refused, social_system

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

    from tests.worlds.public_system import PublicSystem

pytestmark = pytest.mark.servers
Json = dict[str, Any]
INVARIANT = (resources.files("reconciliation.social") / "invariants" / "social_moderation.sql").read_bytes()
DECISIONS = "/v1/moderation/decisions"
APPEALS = "/v1/moderation/appeals"
MODERATORS = (*SCOPES_OF_USERS, "moderator")
_EDITED = """
with edited as (update post set version = 2, edited_at = created_at where post_id = %(id)s returning *)
insert into post_version (post_id, version, text, media_ids, visibility, edited_at)
select post_id, version, text, media_ids, visibility, edited_at from edited
"""
_ENDED = "select supersedes from moderation_decision where reason = 'expired'"
_WAITS = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%%for share of p%%'"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    home: Path = tmp_path_factory.mktemp("decisions")
    with social_system(home, "social_propagation") as made:
        yield made


@pytest.fixture
def author(system: PublicSystem) -> SocialUser:
    return SocialUser(system)


@pytest.fixture
def reader(system: PublicSystem) -> SocialUser:
    return SocialUser(system)


@pytest.fixture
def moderator(system: PublicSystem) -> SocialUser:
    return SocialUser(system, MODERATORS)


def said(object_id: str, decision: str, **more: Any) -> Json:
    return {"object_id": object_id, "decision": decision, "reason": "abuse", "policy_version": 3} | more


def decide(moderator: SocialUser, object_id: str, decision: str, **more: Any) -> Json:
    return moderator.do("POST", DECISIONS, said(object_id, decision, **more))


def test_nothing_is_decided_about_what_an_erased_user_had_before_the_eraser_comes(
    system: PublicSystem, author: SocialUser, moderator: SocialUser
) -> None:
    post = author.post("mine")["post_id"]
    state = "update author set state = %s where user_id = %s"
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn, autocommit=True) as superuser:
        superuser.execute(state, ["deleting", author.name])  # as from the erasure's commit to the eraser's first step
        refused(moderator.send("POST", DECISIONS, said(post, "remove")), 404, "not_found")
        superuser.execute(state, ["active", author.name])
    assert decide(moderator, post, "remove")["version"] == 1


def test_a_decision_is_about_the_version_that_was_judged_and_an_edit_launders_nothing(
    author: SocialUser, reader: SocialUser, moderator: SocialUser
) -> None:
    post = author.post("first words")
    post_id, path = post["post_id"], f"/v1/posts/{post['post_id']}"
    author.do("PATCH", path, {"text": "second words"}, version=1)
    for judged in (1, 3):
        answer = moderator.send("POST", DECISIONS, said(post_id, "remove", object_version=judged))
        assert refused(answer, 409, "version_conflict")["current_version"] == 2
    assert reader.read(path)["version"] == 2, "what was refused has taken nothing away"
    first = decide(moderator, post_id, "label", label="x", object_version=2)
    assert first["object_version"] == 2
    author.do("PATCH", path, {"text": "third words"}, version=2)
    made = decide(moderator, post_id, "remove")
    assert made["object_version"] == 3, "without a version it is that of its commit"
    author.do("PATCH", path, {"text": "innocent words"}, version=3)
    refused(reader.get(path), 404, "not_found")
    own = author.read(path)
    assert (own["version"], own["moderation"]["object_version"]) == (4, 3)
    for one, version in ((first, 2), (made, 3)):
        assert author.read(f"{DECISIONS}/{one['decision_id']}")["object_version"] == version


def test_a_reversal_is_about_the_version_that_is_there_by_then(
    system: PublicSystem, author: SocialUser, moderator: SocialUser
) -> None:
    """And decisions about users and media have versions of these."""
    post = author.post("first words")
    path = f"/v1/posts/{post['post_id']}"
    made = decide(moderator, post["post_id"], "remove")
    author.do("PATCH", path, {"text": "second words"}, version=1)
    appeal = author.do("POST", "/v1/moderation/appeals", {"decision_id": made["decision_id"], "text": "why"})
    verdict = {"outcome": "reversed", "reason": "satire", "policy_version": 4}
    second = SocialUser(system, MODERATORS)
    ended = second.do("POST", f"/v1/moderation/appeals/{appeal['appeal_id']}/decide", verdict)["reversed_by"]
    assert moderator.read(f"{DECISIONS}/{ended}")["object_version"] == 2
    version = author.read("/v1/me")["version"]
    refused(
        moderator.send("POST", DECISIONS, said(author.name, "limit", object_version=version + 1)),
        409,
        "version_conflict",
    )
    assert decide(moderator, author.name, "limit", object_version=version)["object_version"] == version


def test_an_edit_that_commits_first_is_not_judged_by_what_it_replaced(
    system: PublicSystem, author: SocialUser, reader: SocialUser, moderator: SocialUser
) -> None:
    """The decision has read version 1, and waits: the edit's transaction is still open."""
    post_id = author.post("first words")["post_id"]
    with (
        psycopg.connect(system.settings.addresses().postgres_superuser_dsn) as editing,
        psycopg.connect(system.settings.addresses().postgres_superuser_dsn, autocommit=True) as looking,
        ThreadPoolExecutor(1) as pool,
    ):
        editing.execute(_EDITED, {"id": post_id})
        sent = pool.submit(moderator.send, "POST", DECISIONS, said(post_id, "remove", object_version=1))
        eventually(lambda: looking.execute(_WAITS).fetchone() == (1,), 30, what="the decision waits for the edit")
        editing.commit()
        assert refused(sent.result(), 409, "version_conflict")["current_version"] == 2
    assert reader.read(f"/v1/posts/{post_id}")["version"] == 2


def labels_of(user: SocialUser, path: str) -> list[str]:
    return [one["label"] for one in user.read(path)["labels"]]


def soon() -> str:
    return (datetime.now(UTC) + timedelta(seconds=patient(2))).isoformat()


def test_labels_lie_beside_each_other_and_each_ends_alone(
    system: PublicSystem, author: SocialUser, reader: SocialUser, moderator: SocialUser
) -> None:
    post_id = author.post("wordoflabels")["post_id"]
    path = f"/v1/posts/{post_id}"
    first = decide(moderator, post_id, "label", label="satire")
    ends = soon()
    second = decide(moderator, post_id, "label", label="spoiler", beside=True, expires_at=ends, policy_version=7)
    third = decide(moderator, post_id, "label", label="disputed", beside=True)
    assert [one["supersedes"] for one in (first, second, third)] == [None, None, None]
    for where, asked in (
        ("/v1/timelines/public", {}),
        (f"/v1/timelines/user/{author.name}", {}),
        (f"/v1/timelines/thread/{post_id}", {}),
        ("/v1/search", {"q": "wordoflabels"}),
    ):
        (seen,) = (one for one in reader.read(where, **asked)["data"] if one["post_id"] == post_id)
        assert {"disputed", "satire"} <= {one["label"] for one in seen["labels"]}, where
    becomes(lambda: labels_of(reader, path), ["disputed", "satire"], 60, what="one ends without the others")
    seen = reader.read(path)
    assert (seen["label"], seen["labels"][1]) == (
        "disputed",
        {"label": "satire", "policy_version": 3, "expires_at": None, "decision_id": first["decision_id"]},
    )
    assert author.read(path)["moderation"]["decision_id"] == third["decision_id"]
    appeal = author.do("POST", "/v1/moderation/appeals", {"decision_id": first["decision_id"], "text": "why"})
    verdict = {"outcome": "reversed", "reason": "no", "policy_version": 4}
    judge = SocialUser(system, MODERATORS)
    judge.do("POST", f"/v1/moderation/appeals/{appeal['appeal_id']}/decide", verdict)
    assert labels_of(reader, path) == ["disputed"], "what is reversed takes its own label alone"
    refused(moderator.send("POST", DECISIONS, said(post_id, "none", label="satire")), 422, "invalid_command")
    refused(moderator.send("POST", DECISIONS, said(post_id, "remove", label="x")), 422, "invalid_command")
    last = decide(moderator, post_id, "none", label="disputed")
    assert (last["supersedes"], labels_of(reader, path)) == (third["decision_id"], [])
    assert author.read(path)["moderation"] is None


def test_a_label_beside_a_limit_leaves_it_and_what_is_not_beside_supersedes_all(
    author: SocialUser, reader: SocialUser, moderator: SocialUser
) -> None:
    post_id, public = author.post("limited")["post_id"], "/v1/timelines/public"
    path = f"/v1/posts/{post_id}"
    limit = decide(moderator, post_id, "limit", expires_at=soon())
    decide(moderator, post_id, "label", label="satire", beside=True)
    decide(moderator, post_id, "label", label="spoiler", beside=True)
    decide(moderator, post_id, "none", label="spoiler")
    assert labels_of(reader, path) == ["satire"]
    becomes(lambda: post_id in reader.ids(public), True, 60, what="the limit ends by itself")
    assert labels_of(reader, path) == ["satire"]
    assert author.read(path)["moderation"]["decision"] == "label"
    assert limit["version"] == 1
    removed = decide(moderator, post_id, "remove", beside=True)
    decide(moderator, post_id, "label", label="x", beside=True)
    refused(reader.get(path), 404, "not_found")
    assert author.read(path)["moderation"]["decision_id"] == removed["decision_id"]
    decide(moderator, post_id, "label", label="alone")
    assert labels_of(reader, path) == ["alone"], "without beside it is the one thing in force, as ever"
    for n in range(limits.MODERATION_LABELS_MAX - 1):
        decide(moderator, post_id, "label", label=f"l{n}", beside=True)
    refused(
        moderator.send("POST", DECISIONS, said(post_id, "label", label="one more", beside=True)), 422, "invalid_command"
    )
    decide(moderator, post_id, "none")
    assert labels_of(reader, path) == []


def test_an_appeal_has_an_outcome_also_when_what_it_is_against_has_ended(
    system: PublicSystem, author: SocialUser, reader: SocialUser, moderator: SocialUser
) -> None:
    """Upheld or reversed; reversed is a decision none, which leaves what others decided, and never in another's place."""
    second = SocialUser(system, MODERATORS)
    one, two, three, four = (author.post("ended")["post_id"] for _ in range(4))

    def outcome(made: Json, said: str, version: int | None = None) -> httpx.Response:
        appeal = {"decision_id": made["decision_id"], "text": "why"}
        author.send("POST", APPEALS, appeal)
        (found,) = (one for one in author.read(APPEALS)["data"] if one["decision_id"] == made["decision_id"])
        verdict = {"outcome": said, "reason": "no", "policy_version": 4}
        return second.send("POST", f"{APPEALS}/{found['appeal_id']}/decide", verdict, version=version)

    lasting = decide(moderator, three, "label", label="disputed")
    ends = soon()
    label = decide(moderator, one, "label", label="satire", expires_at=ends)
    limit = decide(moderator, two, "limit", expires_at=ends)
    spoiler = decide(moderator, three, "label", label="spoiler", beside=True, expires_at=ends)
    beside = decide(moderator, three, "limit", beside=True, expires_at=ends)
    replaced = decide(moderator, four, "limit", expires_at=ends)
    made = [label, limit, spoiler, beside, replaced]
    becomes(lambda: {said for (said,) in system.rows(_ENDED)} >= {said["decision_id"] for said in made}, True, 60)
    decide(moderator, four, "remove")

    refused(outcome(label, "reversed", version=7), 409, "version_conflict")
    told = outcome(label, "reversed", version=1).json()["result"]
    assert (told["state"], author.read(APPEALS)["data"][0]["state"]) == ("reversed", "reversed")
    none = author.read(f"{DECISIONS}/{told['reversed_by']}")
    assert (none["decision"], none["policy_version"], author.read(f"/v1/posts/{one}")["moderation"]) == (
        "none",
        4,
        None,
    )
    assert outcome(limit, "upheld").status_code == 200
    for over in (spoiler, beside):
        assert outcome(over, "reversed").status_code == 200, over["decision"]
        assert labels_of(reader, f"/v1/posts/{three}") == ["disputed"]
    assert set(reader.ids("/v1/timelines/public")) >= {one, two, three}
    answer = refused(outcome(replaced, "reversed"), 409, "state_conflict")
    assert (answer["current_state"], "in its place" in answer["detail"]) == ("superseded", True)
    assert outcome(replaced, "upheld").status_code == 200
    refused(reader.get(f"/v1/posts/{four}"), 404, "not_found")
    assert outcome(lasting, "reversed").status_code == 200
    assert labels_of(reader, f"/v1/posts/{three}") == []


def test_ones_own_post_that_was_taken_down_is_not_shown_again_by_another(
    author: SocialUser, reader: SocialUser, moderator: SocialUser
) -> None:
    post = author.post("taken down")
    post_id, reposts = post["post_id"], f"/v1/posts/{post['post_id']}/reposts"
    decide(moderator, post_id, "remove")
    for answer in (
        author.send("POST", reposts),
        author.send("POST", "/v1/posts", {"text": "again", "quote_of": post_id}),
        author.send("POST", "/v1/posts", {"text": "again", "reply_to": post_id}),
    ):
        assert refused(answer, 409, "state_conflict")["current_state"] == "taken_down"
    assert reader.ids(f"/v1/timelines/user/{author.name}") == []
    for answer in (reader.send("POST", reposts), reader.send("POST", "/v1/posts", {"text": "x", "reply_to": post_id})):
        refused(answer, 404, "not_found")
    decide(moderator, post_id, "none")
    author.post("again", quote_of=post_id)
    author.do("POST", reposts)


def test_appeals_are_listed_for_their_author_and_for_moderators(
    system: PublicSystem, author: SocialUser, reader: SocialUser, moderator: SocialUser
) -> None:
    path, made = "/v1/moderation/appeals", []
    for user in (author, author, author, reader):
        decision = decide(moderator, user.post("mine")["post_id"], "limit")
        appeal = user.do("POST", path, {"decision_id": decision["decision_id"], "text": "why"})
        made.append((appeal["appeal_id"], decision))
    own, theirs = [one for one, _ in made[:3]][::-1], made[3][0]
    judge = SocialUser(system, MODERATORS)
    verdict = {"outcome": "upheld", "reason": "no", "policy_version": 4}
    judge.do("POST", f"{path}/{own[1]}/decide", verdict)
    listed = author.walk(path, limit=1)
    assert [(one["appeal_id"], one["state"]) for one in listed] == list(
        zip(own, ("open", "upheld", "open"), strict=True)
    )
    first, decision = listed[-1], made[0][1]
    assert (first["text"], first["decision"], first["object_id"]) == ("why", "limit", decision["object_id"])
    assert not {"moderator", "decided_by"} & first.keys()
    assert [one["appeal_id"] for one in reader.walk(path)] == [theirs]
    assert [one["appeal_id"] for one in author.walk(path, state="upheld")] == [own[1]]
    every = [one["appeal_id"] for one in moderator.walk(path, limit=2)]
    assert every[:4] == [theirs, *own]
    waiting = [one["appeal_id"] for one in moderator.walk(path, limit=1, state="open")]
    assert waiting[:3] == [theirs, own[0], own[2]]
    refused(author.get(path, state="x"), 422, "invalid_command")
    page = author.read(path, limit=1)
    refused(author.get(path, cursor=page["next_cursor"], state="open"), 400, "malformed_request")
    refused(reader.get(path, cursor=page["next_cursor"]), 400, "malformed_request")


def test_what_decisions_left_in_force_is_what_they_say(
    system: PublicSystem, author: SocialUser, moderator: SocialUser
) -> None:
    """The invariant over these, and over every decision that was made here before."""
    for _ in range(3):
        post_id = author.post("judged")["post_id"]
        for n in range(7):
            decide(moderator, post_id, "label", label=f"label{n}", beside=True)
    lifted: list[str] = []
    for restricts in ("limit", "remove"):
        post_id = author.post("judged twice")["post_id"]
        decide(moderator, post_id, "label", label="satire")
        decide(moderator, post_id, restricts, beside=True)
        lifted.append(decide(moderator, post_id, "none", beside=True)["decision_id"])
        assert author.read(f"/v1/posts/{post_id}")["moderation"]["decision"] == "label"
    dsn = system.settings.addresses().postgres_superuser_dsn
    with psycopg.connect(dsn) as connection:
        assert connection.execute(INVARIANT).fetchall() == []
        assert connection.execute("select count(*) > 20 from moderation_decision").fetchone() == (True,)
        connection.execute("delete from moderation_label where version = (select max(version) from moderation_label)")
        connection.execute("update moderation_decision set beside = false where beside and decision = 'label'")
        assert connection.execute(INVARIANT).fetchall() != []
        connection.rollback()
        for decision_id in lifted:  # a label in force over a restriction that nothing lifted
            connection.execute(
                "update moderation_decision set decision = 'limit' where decision_id = %s", (decision_id,)
            )
            assert connection.execute(INVARIANT).fetchall() != []
            connection.rollback()
