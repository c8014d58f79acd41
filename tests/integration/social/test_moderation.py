"""Moderation and erasure through the public surface: what a decision takes away is gone, and comes back as it should."""

from __future__ import annotations

import base64
import json
import os
import signal
import uuid
from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from joserfc import jwk, jws

from ingress.identity.issuer import SCOPES_OF_USERS
from schemas.social import limits
from schemas.social.service import SERVICE
from schemas.topics import RESULTS
from sinks.certificates import CertificateKeys
from tests.eventually import becomes, eventually, patient
from tests.services.counter_world import millrace, process
from tests.worlds.social_media import fetch, picture, ready, statuses, urls_of
from tests.worlds.social_planted import VIOLATIONS
from tests.worlds.social_system import SocialUser, refused, social_system
from tests.worlds.topic_bytes import topic_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.worlds.public_system import PublicSystem

pytestmark = pytest.mark.servers
Json = dict[str, Any]
_LATE_ENDS = """
with made as (
    insert into moderation_decision (decision_id, object_id, author_id, decision, reason, policy_version, label, expires_at,
                                     moderator, version, created_at)
    select 'mo_late_' || n, 'late_' || n, 'u_late', 'label', 'x', 1, 'x', '2999-01-01T00:00:00Z', 'u_late', 1, n
    from generate_series(1, %(count)s) n returning object_id, decision_id)
insert into moderation_current (object_id, effect, decision_id, epoch) select object_id, 'label', decision_id, 1 from made
"""
FAILED = 10_000
MODERATORS = (*SCOPES_OF_USERS, "moderator")


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    home: Path = tmp_path_factory.mktemp("moderation")
    workers = ("social_propagation", "social_eraser", "social_scanner")
    with social_system(home, *workers, services=("ingress", "social_media")) as made:
        yield made


@pytest.fixture
def people(system: PublicSystem) -> list[SocialUser]:
    found = [SocialUser(system) for _ in range(3)]
    for user in found:
        assert user.read("/v1/me")["user_id"] == user.name
    return found


@pytest.fixture
def moderator(system: PublicSystem) -> SocialUser:
    return SocialUser(system, MODERATORS)


def decide(moderator: SocialUser, object_id: str, decision: str, **more: Any) -> Json:
    payload = {"object_id": object_id, "decision": decision, "reason": "abuse", "policy_version": 3}
    return moderator.do("POST", "/v1/moderation/decisions", payload | more)


def propagation(moderator: SocialUser, made: Json) -> Json:
    return moderator.read(f"/v1/moderation/decisions/{made['decision_id']}/propagation")


def look_again(system: PublicSystem, made: Json, failed: int = 0) -> None:
    """The origin is to be looked at now, as one that did not answer so many times before."""
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn) as connection:
        connection.execute(
            "update moderation_propagation set attempts = attempts + %s, next_at = clock_timestamp()"
            " where decision_id = %s and consumer = 'media_origin' and state = 'pending'",
            [failed, made["decision_id"]],
        )


def verified(moderator: SocialUser, made: Json) -> Json:
    def all_seen() -> Json | None:
        found = propagation(moderator, made)
        return found if found["state"] == "verified" else None

    return eventually(all_seen, 60, what="the decision has arrived everywhere")


def test_a_decision_is_looked_after_until_the_origin_that_was_away_has_obeyed(
    system: PublicSystem, people: list[SocialUser], moderator: SocialUser
) -> None:
    """One medium is taken down: equal bytes of another owner, and the post, stay.

    Trap 11: ten thousand looks have failed by then, and there is another one.
    """
    author, other, reader = people
    data = picture()
    bad, good, equal = ready(author, data), ready(author), ready(other, data)
    post = author.post("two", media_ids=[bad["media_id"], good["media_id"]])
    twin = other.post("one", media_ids=[equal["media_id"]])
    old = urls_of(reader, post)
    assert statuses(old) == {200}
    with system.frozen("social_media"):
        made = decide(moderator, bad["media_id"], "remove")
        look_again(system, made, failed=FAILED)

        def is_tried_again() -> bool:
            found = {one["name"]: one for one in propagation(moderator, made)["consumers"]}
            return found["media_origin"]["attempts"] > FAILED and found["media_origin"]["state"] == "pending"

        eventually(is_tried_again, 60, what="it is tried, and not given up")
        assert len(urls_of(reader, post)) == 2  # the other medium's two renditions
    look_again(system, made)  # not only when its wait is over
    spread = verified(moderator, made)
    assert all(one["verified_at"] for one in spread["consumers"])
    assert [fetch(url).status_code for url in old] == [404, 404, 200, 200]
    assert author.read(f"/v1/media/uploads/{bad['media_id']}")["scan_state"] == "taken_down"
    assert statuses(urls_of(reader, twin)) == {200}
    appeal = author.do("POST", "/v1/moderation/appeals", {"decision_id": made["decision_id"], "text": "why"})
    verdict = {"outcome": "reversed", "reason": "satire", "policy_version": 4}
    path = f"/v1/moderation/appeals/{appeal['appeal_id']}/decide"
    refused(moderator.send("POST", path, verdict), 403, "four_eyes_required")
    second = SocialUser(system, MODERATORS)
    verified(second, {"decision_id": second.do("POST", path, verdict)["reversed_by"]})
    new = urls_of(reader, post)
    assert (len(new), statuses(new), statuses(old[:2])) == (4, {200}, {404})
    refused(second.send("POST", path, verdict), 409, "state_conflict")


def test_what_one_cannot_see_is_not_there_to_be_reported_and_the_worst_comes_first(
    people: list[SocialUser], moderator: SocialUser
) -> None:
    author, fan, stranger = people
    fan.follow(author)
    hidden, shown = author.post("for followers", visibility="followers"), author.post("for all")

    def report(user: SocialUser, object_id: str, reason: str = "spam") -> Any:
        return user.send("POST", "/v1/moderation/reports", {"object_id": object_id, "reason": reason})

    unknown = report(stranger, "po_unknown")
    assert report(stranger, hidden["post_id"]).content == unknown.content
    assert unknown.status_code == 404
    assert report(fan, hidden["post_id"], "illegal").status_code == 201
    for _ in range(2):
        assert report(stranger, shown["post_id"]).status_code == 201
    assert report(fan, shown["post_id"]).status_code == 201
    assert report(fan, author.name, "other").status_code == 201
    own = {hidden["post_id"], shown["post_id"], author.name}
    queue = [case for case in moderator.walk("/v1/moderation/queue", limit=1) if case["object_id"] in own]
    assert [(c["object_id"], c["reports"]) for c in queue] == [
        (hidden["post_id"], 1),
        (shown["post_id"], 2),
        (author.name, 1),
    ]
    decide(moderator, shown["post_id"], "none")
    left = {case["object_id"] for case in moderator.walk("/v1/moderation/queue")}
    assert own - left == {shown["post_id"]}
    refused(fan.get("/v1/moderation/queue"), 403, "forbidden")


def test_a_case_whose_object_is_gone_is_closed_by_none_and_by_nothing_else(
    system: PublicSystem, people: list[SocialUser], moderator: SocialUser
) -> None:
    """A deleted post, a medium that an edit left out, an erased user and what it posted."""
    author, leaver, reporter = people
    picture_id = ready(author)["media_id"]
    deleted, edited = author.post("deleted"), author.post("edited", media_ids=[picture_id])
    erased = leaver.post("erased")
    gone = [deleted["post_id"], picture_id, leaver.name, erased["post_id"]]
    for object_id in gone:
        report = reporter.send("POST", "/v1/moderation/reports", {"object_id": object_id, "reason": "spam"})
        assert report.status_code == 201
    judge, assign = SocialUser(system, MODERATORS), f"/v1/moderation/queue/{picture_id}/assign"
    judge.do("POST", assign)
    judge.do("POST", "/v1/me/erasure", {"confirm": judge.name})
    assert moderator.do("POST", assign)["assignee"] == moderator.name
    author.do("DELETE", f"/v1/posts/{deleted['post_id']}", version=1)
    author.do("PATCH", f"/v1/posts/{edited['post_id']}", {"media_ids": []}, version=1)
    leaver.do("POST", "/v1/me/erasure", {"confirm": leaver.name})
    eventually(lambda: leaver.read("/v1/me/erasure")["state"] == "complete", 100)
    for object_id in gone:
        said = {"object_id": object_id, "reason": "gone", "policy_version": 1}
        for decision, status in (("remove", 404), ("none", 201), ("none", 404)):
            answer = moderator.send("POST", "/v1/moderation/decisions", said | {"decision": decision})
            assert answer.status_code == status, (object_id, decision, answer.text)
    assert not {case["object_id"] for case in moderator.walk("/v1/moderation/queue")} & set(gone)
    told = "select count(*) from notification where kind = 'moderation' and user_id in (%s, %s)"
    assert system.rows(told, author.name, leaver.name) == [(0,)]


def test_limits_labels_and_suspensions_do_what_they_say_and_end_in_time(
    people: list[SocialUser], moderator: SocialUser
) -> None:
    author, fan, stranger = people
    fan.follow(author)
    post = author.post("wordofthispostonly", media_ids=[ready(author)["media_id"]])
    path, public = f"/v1/posts/{post['post_id']}", "/v1/timelines/public"
    decide(moderator, post["post_id"], "limit")
    assert stranger.get(path).status_code == 200
    assert post["post_id"] not in stranger.ids(public) + stranger.ids("/v1/search", q="wordofthispostonly")
    author.do("PATCH", path, {"text": "wordofthispostonly again"}, version=1)
    assert post["post_id"] not in stranger.ids(public) + stranger.ids("/v1/search", q="wordofthispostonly")
    decide(moderator, post["post_id"], "label", label="parody")
    told = [(seen["label"], seen["moderation"] is not None) for seen in (stranger.read(path), author.read(path))]
    assert told == [("parody", False), ("parody", True)]  # the decision itself is for its author
    found, thread = {"q": "wordofthispostonly"}, f"/v1/timelines/thread/{post['post_id']}"
    lists = {
        public: {},
        f"/v1/timelines/user/{author.name}": {},
        "/v1/search": found,
        thread: {},
        "/v1/timelines/home": {},
    }
    for where, asked in lists.items():
        seen = {one["post_id"]: one["label"] for one in fan.read(where, **asked)["data"]}
        assert seen.get(post["post_id"]) == "parody", where
    quoting = fan.post("look", quote_of=post["post_id"])["post_id"]
    (first,) = fan.read("/v1/timelines/home", limit=1)["data"]
    assert (first["post_id"], first["label"], first["quote"]["label"]) == (quoting, None, "parody")
    ends = (datetime.now(UTC) + timedelta(seconds=patient(2))).isoformat()
    assert decide(moderator, post["post_id"], "label", label="satire", expires_at=ends)["version"] == 3
    becomes(lambda: author.read(path)["moderation"], None, 60, what="it ends by a decision of its own")
    assert post["post_id"] in stranger.ids(public)
    assert stranger.read(path)["label"] is None
    for wider in (author.name, post["media_ids"][0]):  # what is limited keeps its posts out, and none of them away
        verified(moderator, decide(moderator, wider, "limit"))
        assert post["post_id"] not in stranger.ids(public) + stranger.ids("/v1/search", q="wordofthispostonly")
        assert stranger.get(path).status_code == 200
        decide(moderator, wider, "none")
        assert post["post_id"] in stranger.ids(public)
    old = urls_of(stranger, post)
    made = decide(moderator, author.name, "remove")
    for reader in (stranger, author):  # nobody sees it, its author neither
        refused(reader.get(path), 404, "not_found")
        assert post["post_id"] not in reader.home + reader.ids(f"/v1/timelines/user/{author.name}")
    refused(author.send("POST", "/v1/posts", {"text": "x"}), 403, "forbidden")
    (told,) = author.read("/v1/notifications", limit=1)["data"]  # and where it reads what it may appeal against
    assert (told["kind"], told["post_id"], told["decision_id"]) == ("moderation", None, made["decision_id"])
    about = f"/v1/moderation/decisions/{made['decision_id']}"
    assert author.read(about) == moderator.read(about)
    refused(stranger.get(about), 404, "not_found")
    assert author.do("POST", "/v1/moderation/appeals", {"decision_id": told["decision_id"], "text": "why"})["appeal_id"]
    assert statuses(old) == {404}
    verified(moderator, made)
    decide(moderator, author.name, "none")
    assert stranger.get(path).status_code == 200
    assert (statuses(old), statuses(urls_of(stranger, post))) == ({404}, {200})
    kinds = [one["kind"] for one in author.walk("/v1/notifications")]
    assert kinds.count("moderation") == 10
    refused(
        moderator.send(
            "POST",
            "/v1/moderation/decisions",
            {"object_id": "po_x", "decision": "label", "reason": "x", "policy_version": 1},
        ),
        422,
        "invalid_command",
    )


def test_a_home_is_gone_with_its_user_while_it_still_lies_there(system: PublicSystem, people: list[SocialUser]) -> None:
    """And there for nobody, who once blocked it neither: no edge comes to who is erased."""
    leaver, blocker, _ = people
    blocker.do("PUT", f"/v1/blocks/{leaver.name}")
    blocker.do("DELETE", f"/v1/blocks/{leaver.name}")
    post = leaver.post("mine")
    assert leaver.home == [post["post_id"]]
    with system.frozen("social_eraser"):
        leaver.do("POST", "/v1/me/erasure", {"confirm": leaver.name})
        refused(leaver.get("/v1/timelines/home"), 410, "gone")
    eventually(lambda: leaver.read("/v1/me/erasure")["state"] == "complete", 100)
    refused(blocker.send("PUT", f"/v1/follows/{leaver.name}"), 404, "not_found")


def test_nobody_decides_about_what_is_ones_own_or_over_a_decision_it_has_not_seen(
    system: PublicSystem, moderator: SocialUser
) -> None:
    own, second = moderator.post("own"), SocialUser(system, MODERATORS)
    said = {"object_id": own["post_id"], "decision": "none", "reason": "mine", "policy_version": 1}
    for object_id in (own["post_id"], moderator.name):
        whole = said | {"object_id": object_id}
        refused(moderator.send("POST", "/v1/moderation/decisions", whole), 403, "four_eyes_required")
    made = second.do("POST", "/v1/moderation/decisions", said | {"decision": "limit"}, version=0)
    refused(moderator.send("POST", "/v1/moderation/decisions", said), 403, "four_eyes_required")
    for version in (0, 2):
        answer = second.send("POST", "/v1/moderation/decisions", said, version=version)
        assert refused(answer, 409, "version_conflict")["current_version"] == 1
    appeal = moderator.do("POST", "/v1/moderation/appeals", {"decision_id": made["decision_id"], "text": "why"})
    path = f"/v1/moderation/appeals/{appeal['appeal_id']}/decide"
    verdict = {"outcome": "upheld", "reason": "x", "policy_version": 1}
    refused(moderator.send("POST", path, verdict), 403, "four_eyes_required")
    third = SocialUser(system, MODERATORS)
    refused(third.send("POST", path, verdict, version=2), 409, "version_conflict")
    assert third.do("POST", path, verdict, version=1)["state"] == "upheld"


def test_decisions_that_end_late_keep_none_that_ends_soon(
    system: PublicSystem, people: list[SocialUser], moderator: SocialUser
) -> None:
    author, _, _ = people
    post = author.post("soon back")
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
        connection.execute(_LATE_ENDS, {"count": limits.MEDIA_SWEEP_MAX})
        ends = (datetime.now(UTC) + timedelta(seconds=patient(2))).isoformat()
        decide(moderator, post["post_id"], "label", label="satire", expires_at=ends)
        becomes(lambda: author.read(f"/v1/posts/{post['post_id']}")["moderation"], None, 60)
        for table in ("moderation_current", "moderation_label", "moderation_decision"):
            connection.execute(f"delete from {table} where object_id like 'late_%'")


def test_an_erasure_that_dies_goes_on_and_its_certificate_is_signed(
    system: PublicSystem, people: list[SocialUser]
) -> None:
    leaver, friend, twin = people
    data = picture()
    leaver.do("PATCH", "/v1/me", {"display_name": "wordofaname"})
    leaver.follow(friend)
    friend.follow(leaver)
    medium, equal = ready(leaver, data), ready(twin, data)
    kept = twin.post("kept", media_ids=[equal["media_id"]])
    posts = [leaver.post(f"wordofaname {n}") for n in range(3)] + [leaver.post("seen", media_ids=[medium["media_id"]])]
    leaver.do("POST", f"/v1/posts/{kept['post_id']}/likes")
    leaver.do(
        "POST", "/v1/moderation/reports", {"object_id": kept["post_id"], "reason": "spam", "comment": "wordofaname"}
    )
    reply = friend.post("stays wordofafriend", reply_to=posts[0]["post_id"])
    made = leaver.do("POST", "/v1/me/exports")
    lines = leaver.get(f"/v1/me/exports/{made['export_id']}/content").text.splitlines()
    assert [json.loads(line)["object"] for line in lines] == ["user", *["post"] * 4, "media", "follow", "like"]
    old = urls_of(friend, posts[3])
    with process(system, "social_eraser", "worker_after_send") as doomed, system.frozen("social_eraser"):
        begun = leaver.send("POST", "/v1/me/erasure", {"confirm": leaver.name}, key="erase")
        assert begun.status_code == 200
        assert friend.get(f"/v1/posts/{posts[0]['post_id']}").status_code == 404
        eventually(lambda: doomed.poll() is not None, 60, what="the eraser dies when it has told")
    for pid in system.pids("social_eraser"):
        os.kill(pid, signal.SIGKILL)
    for path in ("/v1/me", "/v1/events", "/v1/events/stream", f"/v1/operations/{uuid.uuid4().hex}"):
        refused(leaver.get(path), 410, "gone")
    refused(leaver.send("POST", "/v1/posts", {"text": "x"}), 410, "gone")
    done = eventually(lambda: found if (found := leaver.read("/v1/me/erasure"))["state"] == "complete" else None, 100)
    assert leaver.send("POST", "/v1/me/erasure", {"confirm": leaver.name}, key="erase").content == begun.content
    refused(leaver.send("POST", "/v1/me/erasure", {"confirm": leaver.name}), 410, "gone")
    certificate = done["certificate"]
    assert (certificate["kind"], certificate["reachable"]) == ("erasure", 0)
    assert certificate["counts"] == {"posts": 4, "media": 1, "edges": 3}
    keys = jwk.KeySet.import_key_set(CertificateKeys(system.settings.the_home().path / "keys").public())
    signed = json.loads(jws.deserialize_compact(certificate["jws"], keys, algorithms=["Ed25519"]).payload)
    assert signed == {name: value for name, value in certificate.items() if name != "jws"}
    head, body, signature = certificate["jws"].split(".")
    forged = (
        base64.urlsafe_b64encode(base64.urlsafe_b64decode(body + "==").replace(b'"posts":4', b'"posts":5'))
        .decode()
        .rstrip("=")
    )
    with pytest.raises(Exception, match="bad_signature"):
        jws.deserialize_compact(f"{head}.{forged}.{signature}", keys, algorithms=["Ed25519"])
    assert statuses(old) == {404}
    assert statuses(urls_of(friend, kept)) == {200}
    assert friend.read(f"/v1/posts/{reply['post_id']}")["text"] == "stays wordofafriend"
    assert friend.read("/v1/me")["followers"] == 0
    for table in ("idempotency", "post", "post_version", "author", "moderation_report", "notification"):
        found = system.rows(
            f"select count(*) from {table} t where position('wordofaname' in t::text) > 0 or t::text like %s",
            "%" + b"wordofaname".hex() + "%",
        )
        assert found == [(0,)], table
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn) as connection:
        kept = connection.execute("select key from author_key where user_id = %s", [leaver.name])
        assert kept.fetchall() == [(None,)]
    kafka = system.settings.addresses().kafka
    raw = b"".join(topic_bytes(kafka, topic) for topic in (SERVICE.commands_topic, SERVICE.events_topic, RESULTS))
    assert leaver.name.encode() in raw, "its commands are still in Kafka"
    assert b"wordofaname" not in raw
    assert b"wordofafriend" not in raw, "nor is any text of who stays"


def test_nothing_is_found_amiss_and_every_planted_violation_is(system: PublicSystem) -> None:
    """The last test of the module: over all that the others left."""
    assert system.rows("select count(*) from erasure where state = 'complete'")[0][0] > 0
    only = [argument for name in VIOLATIONS for argument in ("--only", name)]
    becomes(lambda: millrace(system, "check", *only)["gaps"], 0, 60)
    for name, plant in VIOLATIONS.items():
        sql = (resources.files("reconciliation.social") / "invariants" / f"{name}.sql").read_text()
        with psycopg.connect(system.settings.addresses().postgres_superuser_dsn) as connection:
            for statement in plant.split("; "):
                connection.execute(statement.encode())
            assert connection.execute(sql.encode()).fetchall(), name
            connection.rollback()
