"""Pictures at the moderation desk: for who judges, clean ones alone, by a URL of a minute, each look audited."""

from __future__ import annotations

import io
import re
from html import unescape
from typing import TYPE_CHECKING

import psycopg
import pytest
from PIL import Image

from schemas.social.media_origin import MediaOrigin
from tests.integration.social.test_desk import DESK, moderator, pressed, ready_medium
from tests.worlds.page_user import PageUser, ann, bob, page_users
from tests.worlds.payments.console_world import Visitor, Visitors, visitors
from tests.worlds.public_system import public

if TYPE_CHECKING:
    from pathlib import Path

    from tests.worlds.public_system import PublicSystem

__all__ = ["ann", "bob", "page_users", "public", "visitors"]  # the fixtures of this module
pytestmark = pytest.mark.servers


@pytest.fixture
def judge(visitors: Visitors, public: PublicSystem) -> Visitor:
    return moderator(visitors, public, "u_judge")


@pytest.fixture
def second(visitors: Visitors, public: PublicSystem) -> Visitor:
    """Another moderator."""
    return moderator(visitors, public, "u_second")


@pytest.fixture
def medium(ann: PageUser) -> str:
    """A picture that no post has."""
    return ready_medium(ann)


def shown(visitor: Visitor, object_id: str, medium: str) -> str | None:
    """Where its page says that the picture is, when it is asked for."""
    page = visitor.get(f"{DESK}/objects/{object_id}?look={medium}").text
    found = re.search(r'<img src="([^"]+)"', page)
    return unescape(found[1]) if found else None


def looks(public: PublicSystem, medium: str) -> list[tuple[str, str]]:
    query = (
        "select actor, outcome from audit_log where action = 'console.moderation.look' and object = %s order by 1, 2"
    )
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_operator"]) as connection:
        return connection.execute(query, [medium]).fetchall()


def test_who_has_the_case_looks_and_nobody_else(
    visitors: Visitors,
    public: PublicSystem,
    ann: PageUser,
    bob: PageUser,
    judge: Visitor,
    second: Visitor,
    medium: str,
) -> None:
    """Also at a post that is not for the moderator's own eyes; the source and its metadata are not what is shown."""
    post = ann.post("Look", media_ids=medium)
    assert bob.press(f"/app/posts/{post}/report", reason="abuse").status_code == 200
    ann.done(f"/app/posts/{post}/edit", text="Look", visibility="private", version="1", media_ids=medium)
    page = judge.get(f"{DESK}/objects/{post}")
    assert "Shown to who has its case, or may decide an appeal." in page.text
    assert shown(judge, post, medium) is None
    assert pressed(judge, f"{DESK}/objects/{post}/assign") == 303
    page = judge.get(f"{DESK}/objects/{post}")
    assert ("<img" in page.text, f"?look={medium}#pictures" in page.text) == (False, True), "nothing is loaded unasked"
    assert looks(public, medium) == []
    where = shown(judge, post, medium)
    assert where
    answer = judge.get(where)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/webp")
    assert Image.open(io.BytesIO(answer.content)).size == (40, 40)
    assert answer.headers["cache-control"] == "private, no-store"
    assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "img-src 'self';" in page.headers["content-security-policy"]

    assert shown(second, post, medium) is None
    assert second.get(where).status_code == 404, "a URL is its moderator's"
    assert visitors().get(where).status_code == 303, "and admits nobody without a session"
    assert visitors("m_ann").get(where).status_code == 403
    other = ready_medium(ann)
    for wrong in (where[:-1] + ("A" if where[-1] != "A" else "B"), where.replace(medium, other), where.split("?")[0]):
        assert judge.get(wrong).status_code == 404, wrong
    assert judge.get(where.replace(post, medium)).status_code == 404, "nor another case"
    assert [one for one in looks(public, medium) if one[1] == "done"] == [("user:u_judge", "done")]
    assert ("user:u_second", "refused") in looks(public, medium)

    said = {"decision": "remove", "reason": "It is abuse.", "policy_version": "7"}
    assert pressed(judge, f"{DESK}/objects/{post}/decide", **said) == 303
    assert judge.get(where).status_code == 404, "the case is over"
    assert shown(judge, post, medium) is None


def test_who_may_decide_an_appeal_looks_while_it_waits_and_who_decided_does_not(
    visitors: Visitors, public: PublicSystem, ann: PageUser, judge: Visitor, second: Visitor, medium: str
) -> None:
    """At a post that is taken down, and at a medium itself; nothing is loaded unasked, and each look is noted."""
    post = ann.post("Look", media_ids=medium)
    own = moderator(visitors, public, ann.name)
    for judged in (post, medium):
        said = {"decision": "remove", "reason": "It is abuse.", "policy_version": "7"}
        assert pressed(judge, f"{DESK}/objects/{judged}/decide", **said) == 303
        assert shown(second, judged, medium) is None, "no appeal waits"
        with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_operator"]) as connection:
            query = "select decision_id from moderation_decision where object_id = %s"
            ((decision,),) = connection.execute(query, [judged]).fetchall()
        appeal = {"decision_id": decision, "text": "It is not."}
        assert ann.press(f"/app/posts/{post}/appeal", **appeal).status_code == 200
        before = looks(public, medium)
        page = second.get(f"{DESK}/objects/{judged}").text
        assert ("<img" in page, f"?look={medium}#pictures" in page) == (False, True), "nothing is loaded unasked"
        assert looks(public, medium) == before
        where = shown(second, judged, medium)
        assert where
        answer = second.get(where)
        assert Image.open(io.BytesIO(answer.content)).size == (40, 40)
        assert sorted([*before, ("user:u_second", "done")]) == looks(public, medium)
        for other in (judge, own):
            assert shown(other, judged, medium) is None, "who decided, or whose it is, decides no appeal"
            assert other.get(where).status_code == 404
        found = re.search(rf"{judged}.*?{DESK}/appeals/(ap_\w+)", second.get(f"{DESK}/appeals").text, re.DOTALL)
        assert found
        upheld = {"outcome": "upheld", "reason": "It is.", "policy_version": "7"}
        assert pressed(second, f"{DESK}/appeals/{found[1]}", **upheld) == 303
        assert (second.get(where).status_code, shown(second, judged, medium)) == (404, None), "the appeal is over"


def test_what_is_not_scanned_clean_is_shown_to_nobody(
    public: PublicSystem, ann: PageUser, bob: PageUser, judge: Visitor, medium: str
) -> None:
    post = ann.post("Look", media_ids=medium)
    assert bob.press(f"/app/posts/{post}/report", reason="abuse").status_code == 200
    assert pressed(judge, f"{DESK}/objects/{post}/assign") == 303
    where = shown(judge, post, medium)
    assert where
    kept = public.rows("select manifest, rendition_names from media where media_id = %s", medium)[0]
    for state in ("scanning", "infected", "rejected"):
        _put(public, medium, state, None)
        assert judge.get(where).status_code == 404, state
        assert (shown(judge, post, medium), "Not shown" in judge.get(f"{DESK}/objects/{post}").text) == (None, True)
    _put(public, medium, "ready", str(kept[0]))
    assert judge.get(where).status_code == 200


def _put(public: PublicSystem, medium: str, state: str, manifest: str | None) -> None:
    with psycopg.connect(public.settings.addresses().postgres_superuser_dsn) as connection:
        connection.execute("set local session_replication_role = replica")  # no trigger notes it
        given = {"id": medium, "state": state, "manifest": manifest}
        connection.execute(
            "update media set scan_state = %(state)s, manifest = %(manifest)s where media_id = %(id)s", given
        )


def test_a_url_of_a_picture_is_good_for_its_minute(tmp_path: Path) -> None:
    origin = MediaOrigin(url="http://m", uploads_url="http://u", key=b"k" * 32, folder=tmp_path)
    expires = 1_900_000_000
    query = dict(one.split("=") for one in origin.look_query("po_1", "md_1", "u_judge", expires).split("&"))
    assert origin.admits_look("po_1", "md_1", "u_judge", query, expires - 1)
    assert not origin.admits_look("po_1", "md_1", "u_judge", query, expires)
    assert not origin.admits_look("po_1", "md_1", "u_judge", query | {"expires": str(expires + 60)}, expires)
    for other in (("po_2", "md_1", "u_judge"), ("po_1", "md_2", "u_judge"), ("po_1", "md_1", "u_other")):
        assert not origin.admits_look(*other, query, expires - 1)
