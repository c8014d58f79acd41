"""The pages of users in headless chromium: no rule of accessibility is broken, uploads, news and keys work."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.eventually import becomes
from tests.gate import matrix
from tests.worlds.browser import DESK, PHONE, WAIT_MS, Window, chromium, fits
from tests.worlds.page_user import PageUser, ann, bob, page_users
from tests.worlds.public_system import public
from tests.worlds.social_media import picture, put, sha

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page, Route

    from tests.worlds.public_system import PublicSystem

__all__ = ["ann", "bob", "chromium", "page_users", "public"]  # the fixtures of this module
pytestmark = pytest.mark.servers
expect.set_options(timeout=WAIT_MS)

#: whether its first character stands left of its last one
_READS_ON = """element => {
    const [first, last] = [0, element.firstChild.length - 1].map(at => {
        const range = document.createRange();
        range.setStart(element.firstChild, at);
        range.setEnd(element.firstChild, at + 1);
        return range.getBoundingClientRect().left;
    });
    return first < last;
}"""
#: of the second part the first URL admits nothing; a body that a test looks at on its way would be lost
_BREAKING = """() => {
    const { open } = XMLHttpRequest.prototype;
    window.puts = [];
    XMLHttpRequest.prototype.open = function (method, url) {
        const number = new URL(url).pathname.split("/").pop();
        const isBroken = number === "2" && !puts.includes("2");
        puts.push(number);
        open.call(this, method, isBroken ? url.replace("signature=", "signature=x") : url);
    };
}"""
SIZES = {"desk": DESK, "phone": PHONE}
#: the rules of accessibility by night and on a phone are the proof's
LOOKS = matrix([("desk", "light"), ("phone", "dark")], lambda look: look == ("desk", "light"))


@pytest.fixture
def windows(chromium: Browser, public: PublicSystem) -> Iterator[Any]:
    """Makes windows of users who are signed in; at the end, no browser may have complained about anything."""
    made: list[Window] = []

    def make(name: str, **options: Any) -> Page:
        made.append(Window(chromium, public.base_url, **options))
        page = made[-1].page
        page.goto("/app")
        page.get_by_label("Token").fill(public.token(name, ("posts:read", "posts:write"), kind="user"))
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", name="Home")).to_be_visible()
        page.wait_for_load_state()
        return page

    yield make
    assert [text for window in made for text in window.close()] == []


@pytest.mark.timeout(240)  # twenty pages, all rules on each
@pytest.mark.parametrize("look", LOOKS, ids="-".join)
def test_every_page_is_accessible_and_fits(
    windows: Any, ann: PageUser, bob: PageUser, public: PublicSystem, look: tuple[str, str]
) -> None:
    size, scheme = look
    post = ann.post(f"A post with {'a' * 200} @{bob.name} https://example.org/")
    ann.post("An answer", reply_to=post)
    bob.post("A quote", quote_of=post)
    own = bob.post("For followers", visibility="followers")
    bob.done("/app/settings", is_private="on", display_name="Bob the Builder", version="1")
    ann.done(f"/app/users/{bob.name}/follow", next="/app")
    bob.done(f"/app/users/{ann.name}/mute", next="/app")
    bob.done("/app/exports", page="/app/exports")
    limited = bob.post("Against the rules")
    token = public.token("u_moderator", ("posts:read", "posts:write", "moderator"), kind="user")
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": uuid.uuid4().hex, "Prefer": "wait=30"}
    given = {"object_id": limited, "decision": "limit", "reason": "Against rule 4.", "policy_version": 1}
    assert bob.http.post("/v1/moderation/decisions", json=given, headers=headers).status_code == 201
    page = windows(bob.name, viewport=SIZES[size], color_scheme=scheme)
    broken: dict[str, Any] = {}
    for path in (
        "",
        "/public",
        "/search?q=post",
        "/notifications",
        "/requests",
        "/media",
        "/settings",
        f"/users/{ann.name}",
        f"/posts/{post}",
        f"/posts/{post}/versions",
        f"/posts/{own}/edit",
        f"/compose?quote_of={post}",
        "/posts/po_x",
        "/posts/po_x/why",
        f"/posts/{own}/why",
        f"/posts/{limited}/why",
        f"/report?user={ann.name}",
        f"/report?post={post}",
        "/exports",
        "/appeals",
    ):
        page.goto(f"/app{path}")
        found = Axe().run(page).response["violations"]
        if found:
            broken[path] = [(one["id"], one["nodes"][0]["html"][:200]) for one in found]
        assert fits(page), path
    assert broken == {}


@pytest.mark.parametrize("look", LOOKS, ids="-".join)
def test_a_home_says_why_a_post_is_there(windows: Any, ann: PageUser, bob: PageUser, look: tuple[str, str]) -> None:
    size, scheme = look
    ann.done(f"/app/users/{bob.name}/follow", next="/app")
    post = bob.post("What is said")
    page = windows(ann.name, viewport=SIZES[size], color_scheme=scheme)
    page.locator(f"#{post} summary").click()
    expect(page.locator(f"#{post}")).to_contain_text(f"You follow @{bob.name}")
    assert Axe().run(page).response["violations"] == []
    assert fits(page)


def test_what_strangers_write_turns_and_covers_nothing_of_others(
    windows: Any, ann: PageUser, bob: PageUser, public: PublicSystem
) -> None:
    """A name that turns what follows around, which an earlier release took, and letters with a tower of accents."""
    turned = "Bob\u202eexe"
    refused = bob.press("/app/settings", display_name=turned, version="1")
    assert (refused.status_code, "U+202E" in refused.text) == (422, True)
    bob.done("/app/settings", display_name="Bob", version="1")
    with psycopg.connect(public.settings.addresses().postgres_superuser_dsn) as before:
        stored = before.execute("update author set display_name = %s where user_id = %s", (turned, bob.name))
        assert stored.rowcount == 1
    bob.done(f"/app/users/{ann.name}/follow", next="/app")
    bob.post("Z" + "\u0301" * 500)
    page = windows(ann.name)
    for path in (f"/app/users/{bob.name}", "/app/notifications"):
        page.goto(path)
        assert page.locator(".handle").first.evaluate(_READS_ON), path
    page.goto(f"/app/users/{bob.name}")
    assert page.locator(".post .text").evaluate("text => getComputedStyle(text).overflow") == "clip"


def test_a_picture_is_uploaded_scanned_and_posted(windows: Any, ann: PageUser, public: PublicSystem) -> None:
    page = windows(ann.name)
    bad = b"MILLRACE-MALWARE-TEST-SIGNATURE-1"
    page.set_input_files(
        "[data-files]",
        [
            {"name": "sea.png", "mimeType": "image/png", "buffer": picture(64)},
            {"name": "bad.png", "mimeType": "image/png", "buffer": bad},
        ],
    )
    rows = page.get_by_role("list", name="Media of this post").get_by_role("listitem")
    expect(rows.filter(has_text="sea.png")).to_contain_text("Ready")
    expect(rows.filter(has_text="bad.png")).to_contain_text("Refused: it holds malware")
    page.get_by_label("Who sees it").select_option("followers")
    page.get_by_label("What do you want to say?").fill("With a picture and 4242 4242 4242 4242")
    page.get_by_role("button", name="Post", exact=True).click()
    expect(page.get_by_role("alert")).to_be_visible()  # refused, it is all there
    expect(rows).to_contain_text(["Ready"])
    expect(page.get_by_label("Who sees it")).to_have_value("followers")
    page.get_by_label("What do you want to say?").fill("With a picture")
    page.get_by_role("button", name="Post", exact=True).click()
    shown = page.locator("article", has_text="With a picture").locator("img")
    expect(shown).to_have_count(1)
    assert shown.evaluate("image => image.decode().then(() => image.naturalWidth)") == 64
    assert str(shown.get_attribute("src")).startswith(public.settings.media_origin().url)


def test_an_upload_that_breaks_goes_on_and_what_is_taken_out_is_deleted(windows: Any, ann: PageUser) -> None:
    """In three parts, of which the second is refused once: each other part is put once."""
    page = windows(ann.name)
    page.evaluate(_BREAKING)
    data = picture(64)
    page.locator("[data-files]").evaluate("(files, bytes) => (files.dataset.partBytes = bytes)", len(data) // 3 + 1)
    page.set_input_files("[data-files]", [{"name": "sea.png", "mimeType": "image/png", "buffer": data}])
    rows = page.get_by_role("list", name="Media of this post").get_by_role("listitem")
    expect(rows).to_contain_text("Ready")
    assert page.evaluate("puts") == ["1", "2", "2", "3"]
    media_id = page.locator("[name=media_ids]").input_value()
    page.get_by_role("button", name="Remove sea.png").click()
    becomes(lambda: ann.get(f"/app/media/{media_id}").json()["scan_state"], "deleted")
    expect(page.locator("[name=media_ids]")).to_have_value("")


@pytest.mark.parametrize("look", LOOKS, ids="-".join)
def test_the_board_shows_the_end_of_a_scan_and_deletes(
    windows: Any, ann: PageUser, public: PublicSystem, look: tuple[str, str]
) -> None:
    size, scheme = look
    page = windows(ann.name, viewport=SIZES[size], color_scheme=scheme)
    data = picture()
    begun = ann.press("/app/media", mime="image/png", bytes=str(len(data)), sha256=sha(data)).json()
    path = f"/app/media/{begun['media_id']}"
    assert put(begun["url"], data) == 204
    given = {"media_id": begun["media_id"]}
    with psycopg.connect(public.settings.addresses().postgres_superuser_dsn, autocommit=True) as held:
        held.execute("insert into media_scan values (%(media_id)s, now() + interval '1 hour')", given)
        ann.press(f"{path}/complete")
        page.goto("/app/media")
        row = page.get_by_role("main").get_by_role("listitem")
        expect(row).to_contain_text("scanning")
        held.execute("update media_scan set leased_until = now() where media_id = %(media_id)s", given)
    expect(row).to_contain_text("ready")
    row.get_by_text("Delete the upload of").click()
    assert Axe().run(page).response["violations"] == []
    assert fits(page)
    row.get_by_role("button", name="Delete for ever").click()
    expect(row).to_contain_text("deleted")
    expect(page.get_by_role("button", name="Delete for ever")).to_have_count(0)


def test_news_come_without_loading_and_reactions_stay_in_place(windows: Any, ann: PageUser, bob: PageUser) -> None:
    bob.done(f"/app/users/{ann.name}/follow", next="/app")
    page = windows(bob.name)
    ann.post("Fresh from the press")
    news = page.get_by_role("link", name="1 new post")
    expect(news).to_be_visible()
    news.click()
    card = page.locator("article", has_text="Fresh from the press")
    card.get_by_role("button", name="Like").click()
    taken = card.get_by_role("button", name="Take the like back")
    expect(taken).to_be_focused()
    expect(taken).to_have_attribute("aria-pressed", "true")


def test_news_between_a_page_and_its_stream_are_told(windows: Any, ann: PageUser, bob: PageUser) -> None:
    bob.done(f"/app/users/{ann.name}/follow", next="/app")
    page, posted = windows(bob.name), list[str]()

    def opened_late(route: Route) -> None:
        if not posted:
            posted.append(ann.post("While nobody listened"))
            becomes(lambda: bob.cards("/app"), posted)
        route.continue_()

    page.route("**/app/stream*", opened_late)
    page.reload()
    expect(page.get_by_role("link", name="1 new post")).to_be_visible()


def test_keys_walk_open_write_and_search(windows: Any, ann: PageUser) -> None:
    first, second = ann.post("One"), ann.post("Two")
    page = windows(ann.name)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator(f"#{second}")).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator(f"#{first}")).to_be_focused()
    page.keyboard.press("n")
    expect(page.get_by_label("What do you want to say?")).to_be_focused()
    page.keyboard.type("Three")
    page.keyboard.press("Control+Enter")
    expect(page.locator("article")).to_have_count(3)
    page.wait_for_load_state()
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Thread")).to_be_visible()
    page.wait_for_load_state()
    page.keyboard.press("/")
    expect(page.get_by_role("heading", name="Search")).to_be_visible()


def test_without_scripts_everything_but_uploads_works(windows: Any, ann: PageUser) -> None:
    page = windows(ann.name, java_script_enabled=False)
    page.get_by_label("What do you want to say?").fill("Plain")
    page.get_by_role("button", name="Post", exact=True).click()
    card = page.locator("article", has_text="Plain")
    card.get_by_role("button", name="Like").click()
    expect(card.get_by_role("button", name="Take the like back")).to_be_visible()
    expect(page.get_by_text("Add media")).to_be_hidden()
