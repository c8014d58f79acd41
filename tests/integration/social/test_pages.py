"""The pages of users over HTTP: who gets in, whose forms are taken, and that a page shows what the API shows, no more."""

from __future__ import annotations

import itertools
import json
import re
import uuid
from typing import TYPE_CHECKING

import httpx
import pytest

from ingress.app import PAGES
from ingress.social.pages.session import COOKIE
from tests.eventually import becomes, patient
from tests.worlds.page_user import PageUser, PageUsers, ann, bob, page_users
from tests.worlds.public_system import public
from tests.worlds.social_media import picture, put, sha

if TYPE_CHECKING:
    from tests.worlds.public_system import PublicSystem

__all__ = ["ann", "bob", "page_users", "public"]  # the fixtures of this module
pytestmark = pytest.mark.servers

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>"
LISTS = (
    "",
    "/public",
    "/search",
    "/notifications",
    "/requests",
    "/media",
    "/settings",
    "/compose",
    "/exports",
    "/appeals",
)
#: what would run or style something in a page itself
CHOSEN = re.compile(r'<option value="(\w+)" selected>')
INLINE = re.compile(r"<script(?![^>]* src=)|<style|<[a-z]+[^>]*\s(?:style|on[a-z]+)=")


def test_nobody_sees_a_page_without_a_session(page_users: PageUsers) -> None:
    stranger = page_users(())
    for path in (*LISTS, "/stream", "/users/u_x", "/posts/po_x", "/posts/po_x/edit", "/media/md_x", "/no/such/page"):
        answer = stranger.get(f"/app{path}")
        assert (answer.status_code, answer.headers["location"]) == (303, f"/app/sign-in?next=/app{path}"), path
    assert stranger.http.get("/app/media/md_x", headers={"X-Part": "json"}).status_code == 401


def test_the_cookie_is_kept_from_scripts_and_other_sites(public: PublicSystem, page_users: PageUsers) -> None:
    user = page_users(())
    token = public.token(user.name, ("posts:read",), kind="user")
    cookie = user.sign_in(token).headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    assert {"HttpOnly", "SameSite=strict", "Path=/app"} <= set(cookie.split(", ")[0].split("; "))
    assert token not in cookie
    over_tls = page_users(()).http.get("/app/sign-in", headers={"Host": "pages.example"})
    assert "Secure" in over_tls.headers["set-cookie"]


def test_other_tokens_open_nothing(public: PublicSystem, page_users: PageUsers) -> None:
    for token, status in (
        (public.token("m_1", ("posts:read",)), 403),
        (public.token("t_1", ("posts:read",), kind="tenant"), 403),
        (public.token("u_1", ("payments:read",), kind="user"), 403),
        ("rubbish", 401),
    ):
        stranger = page_users(())
        answer = stranger.sign_in(token)
        assert (answer.status_code, COOKIE in stranger.http.cookies) == (status, False)
        assert token not in answer.text


def test_signing_out_ends_a_stolen_cookie_too(page_users: PageUsers, ann: PageUser) -> None:
    stolen = ann.http.cookies[COOKIE]
    assert ann.done("/app/sign-out") == "/app/sign-in"
    thief = page_users(())
    thief.http.cookies.set(COOKIE, stolen, path="/app")
    for _ in range(4):  # whichever process answers
        assert thief.http.get("/app", headers={"Connection": "close"}).status_code == 303


def test_every_form_of_another_session_or_site_is_refused(ann: PageUser, bob: PageUser) -> None:
    paths = [
        re.sub(r"{\w+}", "x", route.path_format)  # type: ignore[attr-defined]
        for router in PAGES
        for route in router.routes
        if "POST" in route.methods and route.path_format not in ("/app/sign-in", "/app/sign-out", "/app/theme")  # type: ignore[attr-defined]
    ]
    paths = [
        path.replace("/users/x/x", f"/users/{bob.name}/block").replace("/requests/x/x", "/requests/x/accept")
        for path in paths
    ]
    paths = [path.replace("/posts/x/x", "/posts/po_x/likes") for path in paths]
    assert len(paths) > 10
    foreign, own = bob.form_token(), ann.form_token()
    for path in paths:
        for token in ("", foreign, "0" * 64):
            answer = ann.http.post(path, data={"form_token": token, "key": uuid.uuid4().hex, "text": "not mine"})
            assert answer.status_code == 403, path
        for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}):
            assert ann.http.post(path, data={"form_token": own}, headers=headers).status_code == 403, path
    assert ann.cards("/app") == []
    assert bob.get(f"/app/users/{ann.name}").status_code == 200, "nobody is blocked"


def test_pages_hold_nothing_inline_and_what_strangers_say_is_text(
    public: PublicSystem, ann: PageUser, bob: PageUser
) -> None:
    parts_go_to = public.settings.addresses().media_origin_url
    ann.done("/app/settings", display_name=HOSTILE, version="1")
    bob.done(f"/app/users/{ann.name}/follow", next="/app")
    post = ann.post(f"{HOSTILE} @{bob.name} https://example.org/?a=1&b=<2 javascript:alert(1)")
    ann.post(HOSTILE, reply_to=post)
    quoting = ann.post(HOSTILE, quote_of=post)
    becomes(lambda: set(bob.cards("/app")) >= {post, quoting}, True)
    pages = ("", "/public", "/search?q=owned", "/notifications", f"/posts/{post}", f"/posts/{post}/versions")
    for path in (*pages, f"/users/{ann.name}", f"/compose?quote_of={post}", *LISTS):
        answer = bob.get(f"/app{path}")
        assert answer.status_code == 200, path
        assert not INLINE.search(answer.text), path
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' http")
        assert "unsafe" not in policy
        assert f"connect-src 'self' {parts_go_to}; " in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
    thread = bob.get(f"/app/posts/{post}").text
    assert "&lt;script&gt;document.title" in thread
    assert f'<a href="/app/users/{bob.name}">@{bob.name}</a>' in thread
    assert 'href="javascript' not in thread
    assert '<a href="https://example.org/?a=1&amp;b="' in thread


def test_a_form_pressed_twice_is_done_once_and_a_stale_one_changes_nothing(ann: PageUser) -> None:
    key = uuid.uuid4().hex
    first, again = (ann.post("Once", key=key) for _ in range(2))
    assert first == again
    assert ann.cards("/app") == [first]
    edited = {"text": "Twice\r\nas long", "visibility": "public", "version": "1"}
    assert ann.done(f"/app/posts/{first}/edit", **edited) == f"/app/posts/{first}"
    stale = ann.press(f"/app/posts/{first}/edit", **edited | {"text": "Lost"})
    assert stale.status_code == 409
    assert "Twice\nas long" in ann.get(f"/app/posts/{first}").text
    too_long = ann.press("/app/posts", text="y" * 5_001)
    assert too_long.status_code == 422
    assert "y" * 5_001 in too_long.text, "what was typed is still there"
    assert "text must be a string of at most 5000 characters" in too_long.text
    for_few = ann.press("/app/posts", text="y" * 5_001, visibility="private", media_ids="md_a md_b")
    assert CHOSEN.findall(for_few.text) == ["private"], "sent again, it is for who it was meant for"
    assert 'name="media_ids" value="md_a md_b"' in for_few.text
    kept_back = {"text": "y" * 5_001, "visibility": "followers", "version": "2"}
    assert CHOSEN.findall(ann.press(f"/app/posts/{first}/edit", **kept_back).text) == ["followers"]
    stale = ann.press(f"/app/posts/{first}/edit", text="of another tab", visibility="public", version="1")
    assert (stale.status_code, "of another tab</textarea>" in stale.text) == (409, True)
    assert 'name="version" value="2"' in stale.text, "saved again, it takes the place of what is there now"
    alone = ann.press("/app/posts", text="an answer to nothing", reply_to="po_gone")
    assert alone.status_code == 404
    assert "an answer to nothing" in alone.text
    assert "po_gone" not in alone.text, "sent again, it answers nothing"
    assert "confirm must be the caller&#39;s own id" in ann.press("/app/erasure", confirm="somebody").text
    assert ann.press(f"/app/posts/{first}/delete", version="1").status_code == 409
    ann.done(f"/app/posts/{first}/delete", version="2")
    assert ann.get(f"/app/posts/{first}").status_code == 410
    assert ann.cards("/app") == []


def test_a_page_shows_what_the_api_shows_through_every_change(
    public: PublicSystem, ann: PageUser, bob: PageUser
) -> None:
    """Followed, private, blocked: each list of posts, and the post's own pages."""
    with httpx.Client(base_url=public.base_url, trust_env=False, timeout=40) as api:
        api.headers["Authorization"] = f"Bearer {public.token(bob.name, ('posts:read',), kind='user')}"
        word = uuid.uuid4().hex
        post = ann.post(f"said {word}")
        lists = {
            "/app": "/v1/timelines/home",
            "/app/public": "/v1/timelines/public",
            f"/app/search?q={word}": f"/v1/search?q={word}",
            f"/app/users/{ann.name}": f"/v1/timelines/user/{ann.name}",
        }

        def agree() -> None:
            for page, path in lists.items():
                shown, said = bob.get(page), api.get(path)
                ids = [one["post_id"] for one in said.json()["data"]]
                if shown.status_code == 200:
                    mine = [one for one in bob.cards(page) if one == post]
                    assert mine == [one for one in ids if one == post], page
                else:
                    assert post not in ids, page
            for last in ("", "/versions"):
                shown, said = bob.get(f"/app/posts/{post}{last}"), api.get(f"/v1/posts/{post}{last}")
                assert shown.status_code == said.status_code, last
            compose = bob.get(f"/app/compose?quote_of={post}")
            assert compose.status_code == api.get(f"/v1/posts/{post}").status_code

        agree()
        assert bob.get(f"/app/posts/{post}").status_code == 200
        bob.done(f"/app/users/{ann.name}/follow", next="/app")
        becomes(lambda: bob.cards("/app"), [post])
        agree()
        bob.done(f"/app/users/{ann.name}/unfollow", next="/app")
        ann.done("/app/settings", is_private="on", version="1")
        assert ann.press("/app/settings", display_name="Ann", version="1").status_code == 409  # a page of before
        assert ann.press("/app/settings", display_name="Ann").status_code == 400
        agree()
        assert bob.get(f"/app/posts/{post}").status_code == 404
        bob.done(f"/app/users/{ann.name}/follow", next="/app")
        assert f"@{bob.name}" in ann.get("/app/requests").text
        ann.done(f"/app/requests/{bob.name}/accept")
        becomes(lambda: bob.cards("/app"), [post])  # what is earlier than the edge comes into the home after it
        agree()
        assert bob.get(f"/app/posts/{post}").status_code == 200
        ann.done(f"/app/users/{bob.name}/block", next="/app")
        agree()
        assert bob.get(f"/app/users/{ann.name}").status_code == 404
        assert f"/app/users/{bob.name}/unblock" in ann.get("/app/settings").text
        assert "Unblock" in ann.get(f"/app/users/{bob.name}").text


def test_a_reaction_gives_the_card_as_it_is_now(ann: PageUser, bob: PageUser) -> None:
    post = ann.post("Like me")
    said = {"form_token": bob.form_token(), "key": uuid.uuid4().hex, "is_on": "no"}
    card = bob.http.post(f"/app/posts/{post}/likes", data=said, headers={"X-Part": "post"})
    assert (card.status_code, "<html" in card.text) == (200, False)
    assert 'aria-label="Take the like back, 1"' in card.text, "what is seen is a part of what is heard"
    assert bob.done(f"/app/posts/{post}/likes", is_on="yes", next="/app/public") == f"/app/public#{post}"
    assert 'aria-label="Take the like back' not in bob.get(f"/app/posts/{post}").text
    assert bob.done(f"/app/posts/{post}/likes", is_on="no", next="https://evil.example/") == f"/app#{post}"


def test_what_is_another_users_is_not_there(ann: PageUser, bob: PageUser) -> None:
    post = ann.post("Mine")
    assert bob.get(f"/app/posts/{post}/edit").status_code == 404
    assert bob.press(f"/app/posts/{post}/edit", text="Yours", visibility="public", version="1").status_code == 404
    assert bob.press(f"/app/posts/{post}/delete", version="1").status_code == 404
    assert "Mine" in ann.get(f"/app/posts/{post}").text


def test_a_session_that_only_reads_changes_nothing(page_users: PageUsers) -> None:
    reader = page_users(("posts:read",))
    assert "<textarea" not in reader.get("/app").text
    assert reader.press("/app/posts", text="not allowed").status_code == 403
    assert reader.cards("/app") == []


def test_a_moderator_sees_the_decision_and_its_author_appeals(
    public: PublicSystem, ann: PageUser, bob: PageUser
) -> None:
    post = ann.post("Perhaps spam")
    assert bob.press(f"/app/posts/{post}/report", reason="spam", comment="look").status_code == 200
    with httpx.Client(base_url=public.base_url, trust_env=False, timeout=40) as api:
        api.headers["Authorization"] = f"Bearer {public.token('u_judge', ('posts:read', 'moderator'), kind='user')}"
        decided = {"object_id": post, "decision": "remove", "reason": "It is spam.", "policy_version": 3}
        wider = decided | {"object_id": ann.name, "decision": "limit"}
        keys = [{"Idempotency-Key": uuid.uuid4().hex, "Prefer": "wait=30"} for _ in range(2)]
        made, limited = (
            api.post("/v1/moderation/decisions", json=said, headers=key).json()["result"]
            for said, key in zip((decided, wider), keys, strict=True)
        )
    assert bob.get(f"/app/posts/{post}").status_code == 404
    own = ann.get(f"/app/posts/{post}").text
    assert "It is spam." in own
    assert own.count(f'action="/app/posts/{post}/appeal"') == 1
    appeal = {"decision_id": made["decision_id"], "text": "It is not."}
    assert ann.press(f"/app/posts/{post}/appeal", **appeal).status_code == 200
    assert ann.press(f"/app/posts/{post}/appeal", **appeal).status_code == 409
    again = ann.get(f"/app/posts/{post}").text
    assert "You have appealed" in again
    assert f"/app/posts/{post}/appeal" not in again, "an appeal is offered once"
    about = f"/app/decisions/{limited['decision_id']}"
    for decision in (made, limited):  # a suspended author sees no post of its own
        assert f'href="/app/decisions/{decision["decision_id"]}"' in ann.get("/app/notifications").text
    assert f'href="/app/posts/{post}"' in ann.get(f"/app/decisions/{made['decision_id']}").text
    assert "your account" in ann.get(about).text
    assert bob.get(about).status_code == 404
    assert ann.press(f"{about}/appeal", decision_id=limited["decision_id"], text="No.").status_code == 200
    assert "You have appealed" in ann.get(about).text


def test_an_erased_user_is_out_and_stays_out(public: PublicSystem, page_users: PageUsers, ann: PageUser) -> None:
    post = ann.post("Soon gone")
    assert ann.press("/app/erasure", confirm="u_another").status_code == 422
    stolen = ann.http.cookies[COOKIE]
    assert ann.done("/app/erasure", confirm=ann.name) == "/app/sign-in"
    assert ann.get("/app").status_code == 303
    again = page_users(())
    again.http.cookies.set(COOKIE, stolen, path="/app")
    assert again.get("/app").status_code == 303
    assert again.sign_in(public.token(ann.name, ("posts:read",), kind="user")).status_code == 410
    assert page_users().get(f"/app/posts/{post}").status_code == 404


def test_an_upload_in_parts_is_gone_on_with_and_deleted_unless_a_post_has_it(ann: PageUser, bob: PageUser) -> None:
    data = picture()
    cut = len(data) // 3 + 1
    sums = [sha(data[at : at + cut]) for at in range(0, len(data), cut)]
    said = {"mime": "image/png", "bytes": str(len(data)), "sha256": sha(data)}
    spare = ann.press("/app/media", **said).json()["media_id"]
    begun = ann.press("/app/media", **said, part_bytes=str(cut), parts=" ".join(sums)).json()
    path = f"/app/media/{begun['media_id']}"
    assert put(begun["url"], data[:cut]) == 204
    missing = ann.get(path).json()["missing"]
    assert [one["number"] for one in missing] == [2, 3]
    for one in missing:
        assert put(one["url"], data[(one["number"] - 1) * cut : one["number"] * cut]) == 204
    assert ann.get(path).json()["missing"] == []
    assert ann.press(f"{path}/complete").json() == {"scan_state": "scanning"}
    becomes(lambda: ann.get(path).json()["scan_state"], "ready")
    board = ann.get("/app/media").text
    assert [f'action="/app/media/{one}/delete"' in board for one in (spare, begun["media_id"])] == [True, True]
    assert ann.done("/app/posts", text="with it", media_ids=begun["media_id"])
    assert bob.press(f"/app/media/{spare}/delete").status_code == 404
    assert ann.press(f"{path}/delete").status_code == 409
    assert ann.done(f"/app/media/{spare}/delete", next="/app/media") == "/app/media"
    assert [ann.get(one).json()["scan_state"] for one in (path, f"/app/media/{spare}")] == ["ready", "deleted"]
    assert 'action="/app/media/md_' not in ann.get("/app/media").text, "there is nothing left to delete"


def test_scripts_of_a_page_may_put_parts_and_nothing_else(public: PublicSystem) -> None:
    """Browsers ask first; what admits a part is its signed URL."""
    media = public.settings.media_origin().url
    asked = {"Origin": public.base_url, "Access-Control-Request-Method": "PUT"}
    answer = httpx.options(f"{media}/uploads/md_x/1", headers=asked, trust_env=False)
    assert (answer.status_code, answer.headers["access-control-allow-methods"]) == (204, "PUT")
    refused = httpx.put(
        f"{media}/uploads/md_x/1",
        content=b"x",
        headers={"Origin": public.base_url},
        trust_env=False,
        timeout=patient(20),
    )
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (403, "*")
    seen = httpx.options(f"{media}/media/md_x/1/full", headers=asked, trust_env=False)
    assert (seen.status_code, "access-control-allow-origin" in seen.headers) == (405, False)


def test_the_stream_of_a_home_ends_with_its_session(ann: PageUser) -> None:
    with ann.http.stream("GET", "/app/stream") as stream:
        frames = stream.iter_text()
        assert next(frames).startswith("retry")
        post = ann.post("News")
        said = ""
        while "event: post" not in said:
            said = next(frames)
        assert post in said
        ann.done("/app/sign-out")
        assert sum(1 for _ in frames) < 10, "it goes on after the session has ended"


def told(user: PageUser, wanted: int, query: str = "", **headers: str) -> list[str]:
    """The first posts of a stream, in order."""
    return [post_id for post_id, _ in told_with_ids(user, wanted, query, **headers)]


def told_with_ids(user: PageUser, wanted: int, query: str = "", **headers: str) -> list[tuple[str, str]]:
    """The first posts of a stream, in order, each with the id of its event."""
    with user.http.stream("GET", f"/app/stream{query}", headers=headers) as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("retry: ")
        assert next(lines).startswith("id: ")
        values = (line.partition(": ")[2] for line in lines if line.startswith(("id: ", "data: ")))
        found = list(itertools.islice(values, 2 * wanted))
    return [(json.loads(data)["post_id"], event_id) for event_id, data in zip(found[::2], found[1::2], strict=True)]


def test_a_stream_goes_on_behind_a_post_that_was_seen(ann: PageUser, bob: PageUser) -> None:
    """What came between a page and its stream, or while it was cut off, is told; of a home without it, all that is new."""
    bob.done(f"/app/users/{ann.name}/follow", next="/app")
    assert bob.cards("/app") == []
    first, *later = [ann.post(text) for text in ("first", "second", "third")]
    becomes(lambda: bob.cards("/app"), [*later[::-1], first])
    assert told(bob, 2, f"?after={first}") == later
    assert told(bob, 1, **{"Last-Event-ID": later[0]}) == later[1:]
    assert told(bob, 1, f"?after={first}", **{"Last-Event-ID": later[0]}) == later[1:], "what was heard last counts"
    for nothing in ("", "po_none"):
        assert told(bob, 3, f"?after={nothing}") == [first, *later]


def test_a_stream_tells_what_came_home_late_or_stood_where_it_was_cut_off(ann: PageUser, bob: PageUser) -> None:
    """What fan-out brings late stands below what was told already, as one's own post, which is at home at once."""
    bob.done(f"/app/users/{ann.name}/follow", next="/app")
    assert bob.cards("/app") == []
    page = bob.get("/app").text
    (after,) = re.findall(r'data-live="/app/stream[?]after=([^"]*)"', page)
    late, own = ann.post("late"), bob.post("own")
    becomes(lambda: bob.cards("/app"), [own, late])
    (first, second) = told_with_ids(bob, 2, f"?after={after}")
    assert [first[0], second[0]] == [late, own]
    assert told(bob, 1, **{"Last-Event-ID": first[1]}) == [own]
    newest = ann.post("newest")
    becomes(lambda: bob.cards("/app"), [newest, own, late])
    assert told(bob, 1, **{"Last-Event-ID": second[1]}) == [newest]
