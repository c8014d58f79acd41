"""Tenants and moderation in headless chromium: no page breaks a rule, scrolls sideways or runs what a stranger wrote."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.e2e.test_console_browser import Desk, inaccessible
from tests.eventually import becomes
from tests.gate import PROOF
from tests.integration.social.test_desk import DESK, moderator, pressed, ready_medium
from tests.integration.tenancy.test_tenant_pages import scene
from tests.worlds.browser import DESK as WIDE
from tests.worlds.browser import PHONE, WAIT_MS, chromium, fits
from tests.worlds.page_user import PageUser, PageUsers, ann, bob, page_users
from tests.worlds.payments.console_world import HOSTILE, Visitors, visitors
from tests.worlds.public_system import public
from tests.worlds.tenancy_world import Caller, Tenancy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from playwright.sync_api import Browser, Page

    from tests.integration.tenancy.test_tenant_pages import Scene
    from tests.worlds.public_system import PublicSystem

__all__ = ["ann", "bob", "chromium", "page_users", "public", "scene", "visitors"]  # the fixtures of this module
pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]
expect.set_options(timeout=WAIT_MS)
SCHEMES = ("light", "dark") if PROOF else ("light",)


def faults_of(page: Page, paths: Iterable[str]) -> dict[str, object]:
    """By page what is wrong with it: rules that it breaks, a sideways scroll at 390 or 1440."""
    found: dict[str, object] = {}
    for path in paths:
        page.goto(path)
        expect(page.locator("main h1")).to_be_visible()
        assert page.title() != "owned"
        assert page.locator("main script, main img").count() == 0
        if broken := [*inaccessible(page), *([] if fits(page) else ["scrolls sideways"])]:
            found[path] = broken
    return found


@pytest.mark.parametrize("scheme", SCHEMES)
def test_pages_of_tenants(chromium: Browser, public: PublicSystem, scene: Scene, scheme: str) -> None:
    tenancy = Tenancy(public)
    root = f"/v1/tenants/{scene.tenant}/migrations"
    moves = tenancy.staff.get(root)["data"]
    move = (moves[:1] or [tenancy.staff.done("POST", root, {"placement": {"mode": "partitioned"}})])[0]["migration_id"]
    becomes(lambda: tenancy.staff.get(f"{root}/{move}")["state"], "soaking", 60)
    tenancy.close()
    desk = Desk(chromium, public.base_url, color_scheme=scheme, viewport=WIDE)
    page = desk.sign_in(public.token("m_ann", ("operator",)))
    own = f"/console/tenants/{scene.tenant}"
    boards = [
        f"/console/{board}" for board in ("tenants", "billing", "grants", "capacity", "noisy", "isolation", "media")
    ]
    assert faults_of(page, (own, f"{own}/moves/{move}", f"/console/invoices/{scene.invoice}", *boards)) == {}
    page.goto(own)
    expect(page.get_by_text(HOSTILE).first).to_be_visible()
    assert desk.close() == []


def test_what_is_decided_about_a_grant_stands_in_view_whatever_was_asked(
    chromium: Browser, public: PublicSystem
) -> None:
    """A ticket of one long word and a long reason are broken; nobody scrolls sideways for the buttons."""
    tenancy = Tenancy(public)
    tenant = tenancy.tenant(tier="enterprise", name="Long words")
    support = Caller(public, "m_ops", "merchant", ("support",))
    asked = {"reason": "a report is empty " * 20, "ticket": "T-" + "9" * 90, "masked_fields": ["payload.address"]}
    support.done("POST", f"/v1/tenants/{tenant.name}/support_grants", asked)
    support.http.close()
    tenancy.close()
    desk = Desk(chromium, public.base_url, viewport=WIDE)
    page = desk.sign_in(public.token("m_ann", ("operator",)))
    for path in (f"/console/tenants/{tenant.name}", "/console/grants"):
        page.goto(path)
        row = page.locator("tr", has_text="T-999").first
        beyond = row.locator("xpath=ancestor::div").last.evaluate("around => around.scrollWidth - around.clientWidth")
        assert beyond == 0
        box = row.get_by_role("button", name="Approve").bounding_box()
        assert box is not None
        assert box["height"] < 40, "the word on the button is broken"
    assert desk.close() == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_pages_of_moderation(
    chromium: Browser,
    public: PublicSystem,
    visitors: Visitors,
    page_users: PageUsers,
    ann: PageUser,
    bob: PageUser,
    scheme: str,
) -> None:
    judge = moderator(visitors, public, "u_judge")
    waiting, decided = ann.post(f"Perhaps {HOSTILE}{' and so on' * 450}"), ann.post("w" * 280)
    for post in (waiting, decided):
        assert bob.press(f"/app/posts/{post}/report", reason="abuse", comment=HOSTILE).status_code == 200
    ann.done(f"/app/posts/{waiting}/edit", text=f"{HOSTILE}{'w' * 280}", visibility="public", version="1")
    said = {"decision": "remove", "reason": HOSTILE, "policy_version": "7"}
    for verb, fields in (("assign", {}), ("decide", said)):
        assert pressed(judge, f"{DESK}/objects/{decided}/{verb}", **fields) == 303
    decision = re.search(r'name="decision_id" value="(mo_\w+)"', ann.get(f"/app/posts/{decided}").text)
    assert decision
    appeal = {"decision_id": decision[1], "text": HOSTILE}
    assert ann.press(f"/app/posts/{decided}/appeal", **appeal).status_code == 200
    desk = Desk(chromium, public.base_url, color_scheme=scheme, viewport=WIDE)
    desk.page.goto("/console")
    desk.page.get_by_label("Token").fill(public.token("u_other", ("posts:read", "moderator"), kind="user"))
    desk.page.get_by_role("button", name="Sign in").click()
    expect(desk.page).to_have_url(re.compile(f"{DESK}$"))
    objects = [f"{DESK}/objects/{one}" for one in (waiting, decided, f"{decided}/text", f"md_{'w' * 40}")]
    assert faults_of(desk.page, (DESK, *objects, f"{DESK}/appeals", f"{DESK}/decisions")) == {}
    desk.page.set_viewport_size(PHONE)
    desk.page.goto(DESK)
    expect(desk.page.get_by_role("button", name=f"Assign to me: {waiting}")).to_be_in_viewport(ratio=1)
    desk.page.goto(f"{DESK}/decisions")
    reached = desk.page.locator("tbody tr", has_text=decided).locator("td").last
    expect(reached).to_be_in_viewport(ratio=1)
    desk.page.goto(objects[0])
    for version in (2, 1):
        expect(desk.page.get_by_label(f"Text of version {version}")).to_contain_text(HOSTILE)
    expect(desk.page.get_by_label("Policy version")).to_have_value(re.compile("^[1-9][0-9]*$"))  # of some last decision
    assert desk.close() == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_picture_is_blurred_until_its_moderator_asks(
    chromium: Browser, public: PublicSystem, visitors: Visitors, ann: PageUser, bob: PageUser, scheme: str
) -> None:
    judge, medium = moderator(visitors, public, "u_judge"), ready_medium(ann)
    post = ann.post("Look", media_ids=medium)
    assert bob.press(f"/app/posts/{post}/report", reason="abuse").status_code == 200
    assert pressed(judge, f"{DESK}/objects/{post}/assign") == 303
    desk = Desk(chromium, public.base_url, color_scheme=scheme, viewport=WIDE)
    page = desk.page
    page.goto("/console")
    page.get_by_label("Token").fill(public.token("u_judge", ("posts:read", "posts:write", "moderator"), kind="user"))
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(re.compile(f"{DESK}$"))
    assert faults_of(page, [f"{DESK}/objects/{post}"]) == {}
    page.get_by_role("link", name="Look at picture 1").click()
    picture = page.get_by_role("img", name="Picture 1 of 1, as reported")
    expect(picture).to_have_js_property("naturalWidth", 40)
    expect(picture).to_have_css("filter", "blur(24px)")
    page.get_by_label("Show it sharp").check()
    expect(picture).to_have_css("filter", "none")
    for size in (WIDE, PHONE):
        page.set_viewport_size(size)
        assert (inaccessible(page), fits(page)) == ([], True)
    assert desk.close() == []
