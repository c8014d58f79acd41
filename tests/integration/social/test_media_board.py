"""The media board of operators: what waits and why, what is tried again, which contents are refused, and who decided it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.eventually import becomes
from tests.integration.operator_shell import Operator
from tests.integration.social.test_desk import moderator, ready_medium
from tests.worlds.page_user import PageUser, ann, bob, page_users
from tests.worlds.payments.console_world import Visitor, Visitors, visitors
from tests.worlds.public_system import public
from tests.worlds.social_media import picture, put, sha

if TYPE_CHECKING:
    from tests.worlds.public_system import PublicSystem

__all__ = ["ann", "bob", "page_users", "public", "visitors"]  # the fixtures of this module
pytestmark = pytest.mark.servers

BOARD = "/console/media"
_STUCK = """
with waiting as (
    update media set scan_state = 'scanning', manifest = null, version = version + 5 where media_id = %(id)s returning media_id)
update media_scan set leased_until = clock_timestamp() + interval '1 hour', tries = 9, seen = 'clamd: it hung up'
where media_id in (select media_id from waiting)
"""


def row_of(operator: Visitor, text: str) -> str:
    """The row of the board that has this text; "" when there is none."""
    rows: list[str] = re.findall(r"<tr data-row>.*?</tr>", operator.get(BOARD).text, re.DOTALL)
    return next((row for row in rows if text in row), "")


def begun(user: PageUser, data: bytes) -> str:
    """An upload whose bytes are there, and that is not completed."""
    made = user.press("/app/media", mime="image/png", bytes=str(len(data)), sha256=sha(data)).json()
    assert put(made["url"], data) == 204
    return str(made["media_id"])


def completed(user: PageUser, data: bytes, state: str) -> str:
    medium = begun(user, data)
    user.press(f"/app/media/{medium}/complete")
    becomes(lambda: user.get(f"/app/media/{medium}").json()["scan_state"], state)
    return medium


def decided(public: PublicSystem, about: str) -> list[tuple[str, str, str]]:
    query = "select actor, action, outcome from audit_log where object = %s order by seq"
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_operator"]) as connection:
        return connection.execute(query, [about]).fetchall()


def test_the_board_is_for_operators_and_readers_decide_nothing(visitors: Visitors, public: PublicSystem) -> None:
    operator, judge, stranger = visitors("m_ann"), moderator(visitors, public, "u_judge"), visitors()
    assert f'href="{BOARD}"' in operator.get("/console").text
    assert operator.get(BOARD).status_code == 200
    assert judge.get(BOARD).status_code == 403
    assert f'href="{BOARD}"' not in judge.get("/console/moderation").text
    assert stranger.get(BOARD).status_code == 303
    reader = visitors()
    reader.sign_in(public.token("m_reader", ("console:read",)))
    assert reader.get(BOARD).status_code == 200
    sha256 = "a" * 64
    assert reader.post(f"{BOARD}/blocked", page=BOARD, sha256=sha256, note="x").status_code == 403
    assert operator.http.post(f"{BOARD}/blocked", data={"sha256": sha256, "note": "x"}).status_code == 403
    assert not row_of(operator, sha256)


def test_a_content_is_refused_from_the_block_to_the_lift(
    visitors: Visitors, public: PublicSystem, ann: PageUser, bob: PageUser
) -> None:
    operator, data = visitors("m_ann"), picture()
    sha256 = sha(data)

    def press(path: str, **fields: str) -> int:
        return operator.post(f"{BOARD}{path}", page=BOARD, **fields).status_code

    assert press("/blocked", sha256="x" * 64, note="x") == 422
    assert press("/blocked", sha256=sha256, note="") == 422
    assert press("/blocked", sha256=sha256.upper(), note="Known <b>abuse</b>") == 303
    assert press("/blocked", sha256=sha256, note="again") == 409
    assert "Known &lt;b&gt;abuse" in row_of(operator, sha256)
    refused = completed(ann, data, "infected")
    assert "its content is blocked" in row_of(operator, refused)
    assert press(f"/blocked/{sha256}/lift", note="A mistake.") == 303
    assert press(f"/blocked/{sha256}/lift", note="A mistake.") == 404
    completed(bob, data, "ready")
    assert [one[1:] for one in decided(public, sha256)] == [
        ("media.block", "done"),
        ("media.unblock", "done"),
        ("media.unblock", "refused"),
    ]
    assert {one[0] for one in decided(public, sha256)} == {"m_ann"}


def test_what_is_on_its_way_stands_there_with_its_age_and_what_is_stuck_is_tried_again(
    visitors: Visitors, public: PublicSystem, ann: PageUser
) -> None:
    operator = visitors("m_ann")
    uploading, wrong = begun(ann, picture()), completed(ann, b"no picture at all", "rejected")
    assert "Uploading" in operator.get(BOARD).text
    assert "<time" in row_of(operator, uploading)
    assert "not decodable as image/png" in row_of(operator, wrong)
    medium = ready_medium(ann)
    with psycopg.connect(public.settings.addresses().postgres_superuser_dsn) as connection:
        connection.execute("set local session_replication_role = replica")  # no trigger notes it
        connection.execute(_STUCK, {"id": medium})
    row = row_of(operator, medium)
    assert ("clamd: it hung up" in row, "Waiting for clamd" in operator.get(BOARD).text) == (True, True)
    retry = f"{BOARD}/{medium}/retry"
    assert operator.post(retry, page=BOARD, note="clamd is there again").status_code == 303
    becomes(lambda: ann.get(f"/app/media/{medium}").json()["scan_state"], "ready")
    assert not row_of(operator, medium)
    assert operator.post(retry, page=BOARD, note="again").status_code == 409
    assert operator.post(f"{BOARD}/md_unknown/retry", page=BOARD, note="x").status_code == 404
    assert [one[1:] for one in decided(public, medium)] == [("media.retry", "done"), ("media.retry", "refused")]


def test_at_a_shell_contents_are_blocked_and_taken_again(public: PublicSystem, ann: PageUser, bob: PageUser) -> None:
    operator, data = Operator.of(public.settings), picture()
    sha256, why = sha(data), ("--reason", "Known abuse")
    done = operator.run("media", "block", sha256.upper(), *why)
    assert (done.returncode, done.stderr) == (0, "")
    for words, said in (
        (("block", sha256, *why), "blocked already"),
        (("block", "x", *why), "must be the SHA-256"),
        (("lift", "0" * 64, *why), "none such"),
        (("lift", sha256, "--reason", ""), "note"),
        (("retry", "md_unknown", *why), "none such"),
        (("retry", completed(ann, data, "infected"), *why), "waits for no scan"),
    ):
        refused = operator.run("media", *words)
        assert refused.returncode != 0, words
        assert said in refused.stderr, words
    listed = json.loads(operator.run("media", "blocked", "--json").stdout)["data"]
    assert [one["reason"] for one in listed if one["sha256"] == sha256] == ["Known abuse"]
    assert operator.run("media", "lift", sha256, *why).returncode == 0
    completed(bob, data, "ready")
    assert [one[1:] for one in decided(public, sha256)] == [("media.block", "done"), ("media.unblock", "done")]
    assert all(one[0].startswith("shell:") for one in decided(public, sha256))
