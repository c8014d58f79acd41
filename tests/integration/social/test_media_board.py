"""The media board of operators: what waits and why, what is tried again, which contents are refused, and who decided it."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from typing import TYPE_CHECKING

import httpx
import psycopg
import pytest

from dataflows.social.rows import SQL as OWNER
from dataflows.worker.commands import CommandSender, command_about
from dataflows.worker.contract import WorkerPlace
from ingress.identity.issuer import SCOPES_OF_USERS
from schemas.senders import of_worker
from schemas.social.media_operations import SCANNER
from tests.eventually import becomes, eventually
from tests.integration.operator_shell import Operator
from tests.integration.social.test_desk import moderator, ready_medium
from tests.worlds.page_user import PageUser, ann, bob, page_users
from tests.worlds.payments.console_world import Visitor, Visitors, visitors
from tests.worlds.public_system import public
from tests.worlds.social_media import picture, put, sha, statuses

if TYPE_CHECKING:
    from schemas.records import Command
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


SERVED = (resources.files("reconciliation.social") / "invariants" / "social_media_served.sql").read_bytes()
_WAITS = """
select count(*) from pg_stat_activity where wait_event_type = 'Lock' and wait_event = 'advisory' and query like '%%media_block(%%'
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


def found_clean(public: PublicSystem, medium: str, owner: str, manifest: str) -> Command:
    """What a scanner tells of a medium that it has begun to scan before."""
    payload = {"media_id": medium, "outcome": "ready", "manifest": manifest}
    return command_about(SCANNER, "record_scan", f"{medium}:begun before", f"user:{owner}", payload)


def test_a_block_is_in_force_for_what_is_being_scanned_and_for_what_no_post_has_yet(
    visitors: Visitors, public: PublicSystem, ann: PageUser
) -> None:
    """And it leaves what a post has: that is for moderators. From the lift on the same upload may be posted."""
    operator, medium, kept = visitors("m_ann"), ready_medium(ann), ready_medium(ann)
    post = ann.post("Before", media_ids=kept)
    (sha256, manifest), (kept_sha256, _) = public.rows(
        "select sha256, manifest from media where media_id = any (array[%s, %s]) order by media_id = %s",
        medium,
        kept,
        kept,
    )
    for one in (sha256, kept_sha256):
        assert operator.post(f"{BOARD}/blocked", page=BOARD, sha256=str(one), note="Known abuse").status_code == 303
    told = ann.press("/app/posts", text="After", next="/app", media_ids=medium)
    assert (told.status_code, "not ready" in told.text) == (422, True)
    ann.done(f"/app/posts/{post}/edit", text="Edited", version="1", visibility="public", media_ids=kept)
    assert operator.post(f"{BOARD}/blocked/{sha256}/lift", page=BOARD, note="No.").status_code == 303
    with psycopg.connect(public.settings.addresses().postgres_superuser_dsn) as connection:
        connection.execute("set local session_replication_role = replica")  # no trigger notes it
        connection.execute(_STUCK, {"id": medium})
    assert operator.post(f"{BOARD}/blocked", page=BOARD, sha256=str(sha256), note="Yes.").status_code == 303
    place = WorkerPlace(
        name="social_scanner",
        kafka=public.settings.kafka_as(of_worker("social_scanner")),
        postgres_dsn=public.settings.addresses().postgres_dsns["millrace_social_scanner"],
        client_id="board-test",
    )
    assert CommandSender(place).why_not_sent([found_clean(public, medium, ann.name, str(manifest))]) is None
    becomes(lambda: ann.get(f"/app/media/{medium}").json()["scan_state"], "infected")
    with psycopg.connect(public.settings.addresses().postgres_superuser_dsn) as connection:
        assert [row for row in connection.execute(SERVED).fetchall() if row[0] in (medium, kept)] == []


def test_a_medium_that_no_post_has_is_shown_as_taken_down_while_its_content_is_blocked(
    visitors: Visitors, public: PublicSystem, ann: PageUser
) -> None:
    """Nothing of it is served, also where a URL was given before; what a post has is for moderators."""
    operator, medium, kept = visitors("m_ann"), ready_medium(ann), ready_medium(ann)
    ann.post("Before", media_ids=kept)
    shas = [one for (one,) in public.rows("select sha256 from media where media_id in (%s, %s)", medium, kept)]
    path, token = (
        "/v1/media/uploads/",
        {"authorization": f"Bearer {public.token(ann.name, SCOPES_OF_USERS, kind='user')}"},
    )

    def seen(medium: str) -> tuple[str, list[str]]:
        media = httpx.get(f"{public.base_url}{path}{medium}", headers=token, trust_env=False).json()
        manifest = media["rendition_manifest"] or {"renditions": []}
        return media["scan_state"], [one["url"] for one in manifest["renditions"]]

    (state, urls), (_, others) = seen(medium), seen(kept)
    assert (state, statuses(urls), statuses(others)) == ("ready", {200}, {200})
    for one in shas:
        assert operator.post(f"{BOARD}/blocked", page=BOARD, sha256=str(one), note="Known abuse").status_code == 303
    assert seen(medium) == ("taken_down", [])
    becomes(lambda: statuses(urls), {404}, 10)
    assert ann.get(f"/app/media/{medium}").json()["scan_state"] == "taken_down"
    assert (seen(kept)[0], statuses(seen(kept)[1])) == ("ready", {200})
    for one in shas:
        assert operator.post(f"{BOARD}/blocked/{one}/lift", page=BOARD, note="No.").status_code == 303
    state, urls = seen(medium)
    assert (state, len(urls)) == ("ready", 2)
    becomes(lambda: statuses(urls), {200}, 10)


def test_what_a_post_has_is_served_without_a_look_at_blocked_contents(public: PublicSystem, ann: PageUser) -> None:
    """Plans of the reads of the media origin, of posts and of an upload: the further look is made where no post is."""
    free, kept = ready_medium(ann), ready_medium(ann)
    ann.post("Before", media_ids=kept)
    with psycopg.connect(public.settings.addresses().postgres_superuser_dsn) as connection:
        connection.execute("set local enable_seqscan = off")
        for medium, looks in ((kept, "never executed"), (free, "loops=1")):
            rows = connection.execute(
                "explain (analyze, timing off) select * from media_access where media_id = %s", (medium,)
            )
            plan = [line for (line,) in rows.fetchall() if "media_blocked" in line]
            assert (len(plan), "media_blocked_pkey" in plan[0], looks in plan[0]) == (1, True, True), plan


def test_a_block_waits_for_owners_that_take_a_medium_at_the_moment(public: PublicSystem) -> None:
    """So that it says a time from which on none is taken."""
    dsn, sha256 = public.settings.addresses().postgres_superuser_dsn, sha(picture())
    with (
        psycopg.connect(dsn) as taking,
        psycopg.connect(dsn, autocommit=True) as looking,
        ThreadPoolExecutor(1) as pool,
    ):
        taking.execute(OWNER["media_block_waits"], (["md_x"],))
        block = pool.submit(looking.execute, "select media_block('m_ann', %s, 'why')", (sha256,))
        with psycopg.connect(dsn, autocommit=True) as watching:
            eventually(lambda: watching.execute(_WAITS).fetchone() == (1,), 30, what="the block waits")
        taking.execute(OWNER["media_blocked"], (["md_x"],))
        (committed_at,) = taking.execute("select clock_timestamp()").fetchone() or (None,)
        taking.commit()
        assert block.result().fetchone() == ("blocked",)
        query = "select added_at > %s from media_blocked where sha256 = %s"
        assert looking.execute(query, (committed_at, sha256)).fetchone() == (True,)


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
