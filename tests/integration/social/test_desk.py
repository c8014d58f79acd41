"""The moderation desk over HTTP: who has it, a case from the report to a reversed appeal, and how far decisions have come."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from ingress import limits
from tests.eventually import becomes
from tests.worlds.page_user import PageUser, PageUsers, ann, bob, page_users
from tests.worlds.payments.console_world import Visitor, Visitors, visitors
from tests.worlds.public_system import public
from tests.worlds.social_media import picture, put, sha

if TYPE_CHECKING:
    from tests.worlds.public_system import PublicSystem

__all__ = ["ann", "bob", "page_users", "public", "visitors"]  # the fixtures of this module
pytestmark = pytest.mark.servers

DESK = "/console/moderation"
PAGES = ("", "/appeals", "/decisions", "/objects/po_x")


def moderator(visitors: Visitors, public: PublicSystem, name: str) -> Visitor:
    visitor = visitors()
    answer = visitor.sign_in(public.token(name, ("posts:read", "posts:write", "moderator"), kind="user"))
    assert (answer.status_code, answer.headers["location"]) == (303, "/console"), answer.text
    assert visitor.get("/console").headers["location"] == DESK
    return visitor


def pressed(visitor: Visitor, path: str, **fields: str) -> int:
    """A form of the desk, with the key that its page gave it."""
    page = f"{DESK}/objects/po_x"
    key = re.search(r'name="key" value="([0-9a-f]+)', visitor.get(page).text)
    assert key
    return visitor.post(path, page=page, key=key[1], **fields).status_code


def test_the_desk_is_for_moderators_and_they_have_nothing_else(visitors: Visitors, public: PublicSystem) -> None:
    name = f"u_reader_{uuid.uuid4().hex[:12]}"  # its audit rows are its own
    judge, operator, stranger = moderator(visitors, public, name), visitors("m_ann"), visitors()
    for page in PAGES:
        assert judge.get(DESK + page).status_code == 200
        assert operator.get(DESK + page).status_code == 403
        assert stranger.get(DESK + page).headers["location"] == f"/console/sign-in?next={DESK}{page}"
    for page in ("/queues/cases", "/pipeline", "/trial-balance", "/reconciliation", "/processors", "/merchants/m_1"):
        assert judge.get(f"/console{page}").status_code == 403
    token = public.token("u_1", ("posts:read",), kind="user")
    # another test may have just had as many sign-ins refused as are told within the window
    becomes(lambda: stranger.sign_in(token).status_code, 403, limits.CONSOLE_SIGN_IN_WINDOW_S + 10)
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_operator"]) as connection:
        query = "select distinct outcome from audit_log where actor = %s and action like 'console.moderation.%%'"
        assert connection.execute(query, (f"user:{name}",)).fetchall() == [("done",)]


def test_forms_of_others_decide_nothing(visitors: Visitors, public: PublicSystem, ann: PageUser) -> None:
    judge, other = moderator(visitors, public, "u_judge"), moderator(visitors, public, "u_other")
    post = ann.post("Judge me")
    foreign = other.form_token(f"{DESK}/objects/{post}")
    said = {"decision": "remove", "reason": "No.", "policy_version": "1", "key": "k"}
    for path in (f"/objects/{post}/decide", f"/objects/{post}/assign", "/appeals/ap_x"):
        assert judge.http.post(DESK + path, data=said | {"form_token": foreign}).status_code == 403
        assert judge.http.post(DESK + path, data=said).status_code == 403
    assert visitors("m_ann").post(f"{DESK}/objects/{post}/decide", page="/console", **said).status_code == 403
    assert ann.get(f"/app/posts/{post}").text.count("by moderators") == 0


def test_a_refused_decision_loses_no_word_that_was_typed(
    visitors: Visitors, public: PublicSystem, ann: PageUser
) -> None:
    """Not of the form that no page can read, nor of one that the owner refuses; and never as markup."""
    judge, post, typed = moderator(visitors, public, "u_judge"), ann.post("Judge me"), "Rule 3 <b>forbids</b> it."
    shown = "Rule 3 &lt;b&gt;forbids&lt;/b&gt; it."
    page = f"{DESK}/objects/{post}"
    for wrong, status in (({"policy_version": "next"}, 422), ({"policy_version": "1", "decision_version": "7"}, 409)):
        said = {"decision": "remove", "reason": typed, "key": uuid.uuid4().hex} | wrong
        answer = judge.post(f"{page}/decide", page=page, **said)
        assert answer.status_code == status, answer.text
        assert answer.text.count(shown) == 1
        assert typed not in answer.text
    assert "another try" not in judge.get("/console/nowhere").text


def test_a_case_from_the_report_to_the_reversed_appeal(
    visitors: Visitors, public: PublicSystem, page_users: PageUsers, ann: PageUser, bob: PageUser
) -> None:
    judge, second = moderator(visitors, public, "u_judge"), moderator(visitors, public, "u_second")
    post, hostile = ann.post("Perhaps <b>abuse</b>"), "<script>alert(1)</script>"
    for reader in (bob, page_users()):
        assert reader.press(f"/app/posts/{post}/report", reason="abuse", comment=hostile).status_code == 200
    row = re.search(rf"<tr data-row><td>[^\n]*{post}[^\n]*", judge.get(DESK).text)
    assert row
    assert re.findall(r'data-name="(\w+)">(\d+)<', row[0]) == [("Reports", "2"), ("Priority", "20")]

    assert pressed(judge, f"{DESK}/objects/{post}/assign") == 303
    assert pressed(second, f"{DESK}/objects/{post}/assign") == 409
    page = judge.get(f"{DESK}/objects/{post}").text
    assert "Perhaps &lt;b&gt;abuse" in page
    assert hostile not in page
    assert "u_judge" in page

    said: dict[str, Any] = {"decision": "remove", "reason": "It is abuse."}
    assert pressed(judge, f"{DESK}/objects/{post}/decide", **said, policy_version="x") == 422
    assert bob.get(f"/app/posts/{post}").status_code == 200
    assert pressed(judge, f"{DESK}/objects/{post}/decide", **said, policy_version="7") == 303
    assert bob.get(f"/app/posts/{post}").status_code == 404
    assert "not shown to you" in judge.get(f"{DESK}/objects/{post}").text, "a moderator sees what its user may see"
    assert post not in judge.get(DESK).text

    own = ann.get(f"/app/posts/{post}").text
    decision = re.search(r'name="decision_id" value="(mo_\w+)"', own)
    assert decision
    appeal = {"decision_id": decision[1], "text": "It is not."}
    assert ann.press(f"/app/posts/{post}/appeal", **appeal).status_code == 200
    waiting = second.get(f"{DESK}/appeals").text
    appeal_id = re.search(rf"{post}.*?{DESK}/appeals/(ap_\w+)", waiting, re.DOTALL)
    assert appeal_id
    assert f"{DESK}/appeals/{appeal_id[1]}" not in judge.get(f"{DESK}/appeals").text, "not by who decided"
    reversed_ = {"outcome": "reversed", "reason": "A quotation.", "policy_version": "8"}
    assert pressed(judge, f"{DESK}/appeals/{appeal_id[1]}", **reversed_) == 403
    assert bob.get(f"/app/posts/{post}").status_code == 404
    assert pressed(second, f"{DESK}/appeals/{appeal_id[1]}", **reversed_) == 303
    assert bob.get(f"/app/posts/{post}").status_code == 200

    def board() -> set[str]:
        rows = re.findall(rf"<tr data-row><td>[^\n]*{post}[^\n]*", judge.get(f"{DESK}/decisions").text)
        assert len(rows) == 2
        return set(re.findall(r'class="state (good|open)" title="\d+ looks', "".join(rows)))

    becomes(board, {"good"}, 60)


def test_versions_stand_side_by_side_and_the_policy_of_late_is_at_hand(
    visitors: Visitors, public: PublicSystem, ann: PageUser
) -> None:
    """What was said for fewer stays with them: a moderator reads what its own user may."""
    judge, post = moderator(visitors, public, "u_judge"), ann.post("First <i>words</i>")
    path = f"{DESK}/objects/{post}"
    assert "Version 1" not in judge.get(path).text, "one version is the post itself"
    for version, (text, visibility) in enumerate((("For friends", "followers"), ("Third words", "public")), 1):
        ann.done(f"/app/posts/{post}/edit", text=text, visibility=visibility, version=str(version))
    page = judge.get(path).text
    assert re.findall(r'aria-label="Text of version (\d)">([^<]*)<', page) == [
        ("3", "Third words"),
        ("1", "First &lt;i&gt;words&lt;/i&gt;"),
    ]
    judged = re.search(r'name="object_version" value="(\d)"', page)
    assert judged
    assert judged[1] == "3"
    stale = {"decision": "remove", "reason": "y", "policy_version": "1", "object_version": "2"}
    assert pressed(judge, f"{path}/decide", **stale) == 409
    assert ann.get(f"/app/posts/{post}").text.count("by moderators") == 0
    for policy in ("987654321", "5"):
        said = {"decision": "label", "label": "x", "reason": "y", "policy_version": policy}
        assert pressed(judge, f"{path}/decide", **said) == 303
    page = judge.get(path).text
    assert re.findall(r'<option value="(\d+)">', page)[:2] == ["5", "987654321"]
    assert re.search(r'name="policy_version" list="policies"[^>]* value="5"', page)


def test_a_decision_that_was_made_meanwhile_is_not_undone_unseen(
    visitors: Visitors, public: PublicSystem, ann: PageUser, bob: PageUser
) -> None:
    """Two look at one case; the second one decides by a page of before the first one's decision."""
    judge, second = moderator(visitors, public, "u_judge"), moderator(visitors, public, "u_second")
    post = ann.post("Perhaps abuse")
    path = f"{DESK}/objects/{post}"
    bob.press(f"/app/posts/{post}/report", reason="abuse", comment="x")
    assert pressed(judge, f"{path}/assign") == 303
    page = second.get(path).text
    assert "Another moderator has this case: u_judge" in page
    assert "Another moderator has" not in judge.get(path).text
    seen = re.search(r'name="decision_version" value="(\d+)"', page)
    assert seen
    said = {"reason": "y", "policy_version": "1", "decision_version": seen[1]}
    assert pressed(judge, f"{path}/decide", decision="remove", **said) == 303
    assert pressed(second, f"{path}/decide", decision="none", **said) == 409
    assert bob.get(f"/app/posts/{post}").status_code == 404
    assert 'name="decision_version" value="1"' in second.get(path).text
    assert pressed(second, f"{path}/decide", decision="none", **said | {"decision_version": "1"}) == 303
    assert bob.get(f"/app/posts/{post}").status_code == 200


def test_what_the_owner_refuses_has_its_status_at_the_desk_too(
    visitors: Visitors, public: PublicSystem, ann: PageUser
) -> None:
    judge, post = moderator(visitors, public, "u_judge"), ann.post("Judge me")
    said = {"decision": "remove", "reason": "y", "policy_version": "1"}
    path = f"{DESK}/objects/{post}/decide"
    assert pressed(judge, path, **said, expires_at="2001-01-01T00:00:00Z") == 422
    ann.done(f"/app/posts/{post}/delete", version="1")
    assert pressed(judge, path, **said) == 404


def test_media_and_users_are_judged_in_their_version_too(
    visitors: Visitors, public: PublicSystem, ann: PageUser
) -> None:
    """A user whose name has changed since, and a medium that a post has by now, are looked at again."""
    judge, medium = moderator(visitors, public, "u_judge"), ready_medium(ann)
    ann.done("/app/settings", display_name="First <i>name</i>", version="1")
    for judged in (ann.name, medium):
        page = judge.get(f"{DESK}/objects/{judged}").text
        assert ("First &lt;i&gt;name" in page) == (judged == ann.name)
        version = re.search(r'name="object_version" value="(\d+)"', page)
        assert version
        if judged == medium:
            ann.post("With a picture", media_ids=medium)
        else:
            ann.done("/app/settings", display_name="Second name", version="2")
        said = {"decision": "limit", "reason": "y", "policy_version": "1"}
        path = f"{DESK}/objects/{judged}/decide"
        assert pressed(judge, path, **said, object_version=version[1]) == 409, judged
        assert "Nothing was decided." in judge.get(f"{DESK}/objects/{judged}").text
        assert pressed(judge, path, **said, object_version=str(int(version[1]) + 1)) == 303, judged


def ready_medium(user: PageUser) -> str:
    """A picture of the user's that no post has."""
    data = picture()
    begun = user.press("/app/media", mime="image/png", bytes=str(len(data)), sha256=sha(data)).json()
    assert put(begun["url"], data) == 204
    path = f"/app/media/{begun['media_id']}"
    user.press(f"{path}/complete")
    becomes(lambda: user.get(path).json()["scan_state"], "ready")
    return str(begun["media_id"])


def test_one_goes_from_a_medium_to_its_post_and_back(visitors: Visitors, public: PublicSystem, ann: PageUser) -> None:
    judge, medium = moderator(visitors, public, "u_judge"), ready_medium(ann)
    assert "No post has it." in judge.get(f"{DESK}/objects/{medium}").text
    post = ann.post("With a picture", media_ids=medium)
    page = judge.get(f"{DESK}/objects/{medium}").text
    assert [f'href="{DESK}/objects/{one}"' in page for one in (ann.name, post)] == [True, True]
    assert f'href="{DESK}/objects/{medium}"' in judge.get(f"{DESK}/objects/{post}").text
    assert ann.done("/app/erasure", confirm=ann.name) == "/app/sign-in"
    page = judge.get(f"{DESK}/objects/{medium}").text
    assert [one in page for one in (ann.name, post)] == [False, False], "what was an erased user's is nobody's"
