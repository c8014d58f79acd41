"""The console in headless chromium: what only a browser proves. The policy holds, keys work, two persons, two themes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.eventually import becomes, patient
from tests.gate import PROOF
from tests.worlds.browser import WAIT_MS, Window, chromium
from tests.worlds.payments.console_world import HOSTILE, Scene, parked_payment, scene
from tests.worlds.payments.repair_world import opened, transactions
from tests.worlds.payments.risk_cases import above
from tests.worlds.payments.risk_world import Rules, confirmed, created
from tests.worlds.public_system import merchant, public

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["chromium", "merchant", "public", "scene"]  # the fixtures of this module
pytestmark = pytest.mark.servers

_END_MS = 1_000 * patient(60)  # of what a processor and an owner have a part in
expect.set_options(timeout=WAIT_MS)


#: chromium gives the focus to whatever scrolls and holds nothing that takes it; the rule does not know
_BY_THE_BROWSER = {"rules": {"scrollable-region-focusable": {"enabled": False}}}


class Desk(Window):
    """A window at the console."""

    def sign_in(self, token: str) -> Page:
        self.page.goto("/console")
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page.get_by_role("heading", name="Overview")).to_be_visible()
        self.page.wait_for_load_state()  # a page is seen before its scripts run, and a key that nobody hears is lost
        return self.page


@pytest.fixture
def desks(chromium: Browser, public: PublicSystem) -> Iterator[Any]:
    """Makes desks; at the end, no browser may have complained about anything."""
    made: list[Desk] = []

    def make(name: str, scope: str = "operator", **options: Any) -> Page:
        made.append(Desk(chromium, public.base_url, **options))
        return made[-1].sign_in(public.token(name, (scope,)))

    yield make
    assert [text for desk in made for text in desk.close()] == []


def inaccessible(page: Page) -> list[tuple[str, str]]:
    """The rules that the page breaks, each with the first element that does."""
    found = Axe().run(page, options=_BY_THE_BROWSER).response["violations"]
    return [(one["id"], one["nodes"][0]["html"][:200]) for one in found]


@pytest.mark.timeout(240)  # fifteen pages, all rules on each
def test_no_page_breaks_the_policy_and_nothing_of_a_stranger_runs(scene: Scene, desks: Any) -> None:
    """Nor a rule of accessibility that a machine can judge. Those of tenants and moderation: tests/e2e/test_desks_browser.py."""
    page = desks("m_ann")
    broken: dict[str, list[tuple[str, str]]] = {}
    for path in (
        "",
        "/",
        "/queues/cases",
        "/queues/unknown",
        "/queues/parked",
        "/queues/webhooks",
        "/queues/review",
        "/reconciliation",
        "/trial-balance",
        "/processors",
        "/pipeline",
        f"/merchants/{scene.merchant}",
        f"/cases/{scene.case}",
        f"/repairs/{scene.repair}",
        f"/story/{scene.payment}",
    ):
        page.goto(f"/console{path}")
        expect(page.locator("main h1")).to_be_visible()
        assert "owned" not in page.title()
        if found := inaccessible(page):
            broken[path] = found
    assert broken == {}
    page.get_by_text("More of the payment").click()
    expect(page.get_by_text(HOSTILE).first).to_be_visible()
    assert page.locator("main script, main img").count() == 0


def test_the_policy_is_one_that_the_browser_enforces(chromium: Browser, public: PublicSystem) -> None:
    """An inline script and an inline style that got in all the same do nothing, and the browser says so."""
    desk = Desk(chromium, public.base_url)
    page = desk.sign_in(public.token("m_ann", ("operator",)))
    ran = page.evaluate(
        """() => { const script = document.createElement("script"); script.textContent = "window.owned = 1";
                   document.body.append(script); document.body.setAttribute("style", "display: none");
                   return [window.owned ?? 0, getComputedStyle(document.body).display] }"""
    )
    assert ran == [0, "grid"]
    said = "\n".join(desk.complaints)
    assert "script-src" in said
    assert "style-src" in said
    desk.context.close()


def test_keys_find_a_payment_and_open_its_story(scene: Scene, desks: Any) -> None:
    page = desks("m_ann")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_label("Search any id")).to_be_focused()
    page.keyboard.type(scene.payment)
    page.keyboard.press("Enter")
    expect(page.locator("main h1")).to_contain_text("1,234.56")
    page.wait_for_load_state()
    page.keyboard.press("j")
    first = page.locator(".timeline summary").first
    expect(first).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.locator(".timeline details").first).to_have_attribute("open", "")
    page.locator(".timeline details.more summary").first.click()
    expect(page.locator(".timeline pre").first).to_contain_text(scene.payment)
    page.keyboard.press("e")
    expect(page.locator(".timeline > .entry > details:not([open])")).to_have_count(0)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Next, previous row")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("b")
    expect(page.get_by_role("heading", name="Trial balance")).to_be_visible()


def test_a_search_result_is_opened_where_it_stands(scene: Scene, desks: Any) -> None:
    page = desks("m_ann")
    page.goto(f"/console/search?q={scene.refund}")
    expect(page.locator(f"[id='{scene.refund}'] > details")).to_have_attribute("open", "")


def test_the_system_s_theme_counts_until_one_is_chosen(public: PublicSystem, desks: Any) -> None:
    def background(page: Page) -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    light, dark = desks("m_ann", color_scheme="light"), desks("m_ann", color_scheme="dark")
    assert background(light) == "rgb(255, 255, 255)"
    assert background(dark) == "rgb(16, 17, 20)"
    light.keyboard.press("t")
    expect(light.locator("html")).to_have_attribute("data-theme", "dark")
    assert background(light) == background(dark)
    light.goto("/console/pipeline")
    assert background(light) == background(dark)
    light.get_by_role("button", name="Light").click()
    expect(light.locator("html")).to_have_attribute("data-theme", "light")
    assert light.url.endswith("/console/pipeline")


def test_two_persons_repair_in_two_windows(public: PublicSystem, desks: Any) -> None:
    case = opened(public, currency="USD")
    ann, bob, eve = desks("m_ann"), desks("m_bob"), desks("m_eve", "console:read")
    ann.goto(f"/console/cases/{case}")
    ann.get_by_label("Amount").fill("7.00")
    ann.get_by_label("Note").fill("the bank confirmed it")
    ann.get_by_role("button", name="Propose").click()
    expect(ann.get_by_role("heading", name="write off")).to_be_visible()
    expect(ann.locator(".preview")).to_contain_text("+7.00")
    expect(ann.get_by_role("button", name="Approve and post")).to_be_disabled()
    expect(ann.locator("#why-not")).to_have_text("You proposed it: a second person has to approve.")
    path = ann.url
    # Who takes the mark off the button is still not a second person.
    ann.get_by_role("button", name="Approve and post").evaluate("button => { button.disabled = false }")
    ann.get_by_role("button", name="Approve and post").click()
    expect(ann.get_by_role("heading", name="Another person has to approve")).to_be_visible()
    eve.goto(path)
    expect(eve.get_by_role("button", name="Approve and post")).to_be_disabled()
    expect(eve.locator("#why-not")).to_contain_text("only reads")
    repair_id = path.rpartition("/")[2]
    assert transactions(public, repair_id) == []
    bob.goto(path)
    bob.get_by_role("button", name="Approve and post").click()
    expect(bob.locator("h1 .state")).to_have_text("posted", timeout=_END_MS)
    assert len(transactions(public, repair_id)) == 1


def test_a_case_is_closed_by_keys_and_a_second_person(public: PublicSystem, desks: Any) -> None:
    case = opened(public, currency="USD", amount=700)
    ann, bob = desks("m_ann"), desks("m_bob")
    ann.goto(f"/console/cases/{case}")
    ann.get_by_label("Reason").focus()
    ann.keyboard.type("duplicate")
    ann.keyboard.press("Tab")
    ann.keyboard.type("the other one has the evidence")
    ann.keyboard.press("Enter")
    expect(ann.locator("h1 .state")).to_have_text("proposed")
    expect(ann.get_by_role("button", name="Approve and close")).to_be_disabled()
    bob.goto(f"/console/cases/{case}")
    expect(bob.locator(".closing")).to_contain_text("the other one has the evidence")
    bob.get_by_role("button", name="Approve and close").focus()
    bob.keyboard.press("Enter")
    expect(bob.locator("h1 .state")).to_have_text("resolved")
    expect(bob.locator(".facts").first).to_contain_text("duplicate: the other one has the evidence")
    bob.get_by_label("Why").fill("it was another one")
    bob.keyboard.press("Enter")
    expect(bob.locator("h1 .state")).to_have_text("open")


def test_a_parked_command_is_retried_by_keys_alone(public: PublicSystem, merchant: Merchant, desks: Any) -> None:
    payment = parked_payment(public, merchant)
    page, eve = desks("m_ann"), desks("m_eve", "console:read")
    eve.goto("/console/queues/parked")
    expect(eve.get_by_role("button", name="Retry").first).to_be_disabled()
    page.goto("/console/queues/parked")
    row = page.locator("tr[data-row]", has_text=payment)
    while not row.get_by_role("link").evaluate("link => link === document.activeElement"):
        page.keyboard.press("j")
    page.keyboard.press("Tab")
    expect(row.locator("summary")).to_be_focused()
    page.keyboard.press("Enter")
    expect(row.locator("details")).to_contain_text("commands.payments.v1")
    page.keyboard.press("Tab")
    page.keyboard.type("the constraint is gone")
    page.keyboard.press("Enter")  # decides nothing: two buttons follow
    expect(row.get_by_label("Note")).to_be_focused()
    page.keyboard.press("Tab")
    expect(row.get_by_role("button", name="Retry")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("tr[data-row]", has_text=payment)).to_have_count(0)
    becomes(lambda: merchant.fresh(f"/v1/payment_intents/{payment}").json()["state"], "succeeded", 60)


def test_a_risk_review_is_decided_by_keys_from_queue_and_case(
    public: PublicSystem, merchant: Merchant, desks: Any
) -> None:
    operator = public.merchant(scopes=("operator",))
    rules = Rules(public, operator)
    with public.policies():
        rules.publish(merchant, {"name": "look", "when": [above(100)], "outcome": "review"})
        approved, rejected = created(merchant), created(merchant)
        for payment in (approved, rejected):
            assert confirmed(merchant, payment)["state"] == "requires_merchant_action"
        assert rules.post(rules.active()).status_code == 201
    page = desks("m_ann")
    page.goto("/console/queues/review")
    row = page.locator("tr[data-row]", has_text=approved)
    row.get_by_label("Note").focus()
    page.keyboard.type("called the payer")
    page.keyboard.press("Enter")  # a note is no approval
    assert page.url.endswith("/queues/review")
    page.keyboard.press("Tab")
    expect(row.get_by_role("button", name="Approve")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("h1 .state")).to_be_visible()
    assert page.url.endswith(f"/story/{approved}")
    case = operator.http.get("/v1/cases", params={"kind": "risk_review", "state": "open"}).json()["data"]
    page.goto(f"/console/cases/{next(one['id'] for one in case if one['reference'] == rejected)}")
    expect(page.get_by_text("Propose a repair")).to_have_count(0)
    expect(page.locator("main")).to_contain_text("10.99")
    page.get_by_label("Note").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Reject it")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("h1 .state")).to_have_text("canceled", timeout=_END_MS)
    becomes(lambda: merchant.fresh(f"/v1/payment_intents/{approved}").json()["state"], "succeeded", 60)
    operator.http.close()


def test_a_narrow_window_has_no_sideways_scroll(scene: Scene, desks: Any) -> None:
    page = desks("m_ann", viewport={"width": 390, "height": 800}, color_scheme="dark")
    broken: dict[str, list[tuple[str, str]]] = {}
    wide = (
        f"/story/{scene.payment}",
        f"/cases/{scene.case}",
        f"/repairs/{scene.repair}",
        f"/merchants/{scene.merchant}",
    )
    for path in ("", "/reconciliation", "/trial-balance", *wide):
        page.goto(f"/console{path}")
        if PROOF and (found := inaccessible(page)):
            broken[path] = found
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    assert broken == {}


def test_signing_out_leaves_nothing_behind(desks: Any) -> None:
    page = desks("m_ann")
    assert page.evaluate("document.cookie") == ""
    page.locator(".places").get_by_role("link", name="Pipeline").click()
    expect(page.get_by_role("heading", name="Owners")).to_be_visible()
    page.wait_for_load_state()
    with page.expect_response(lambda answer: answer.url.endswith("/console/pipeline")):
        page.keyboard.press("r")  # htmx puts the fresh part in place, under the same policy
    expect(page.get_by_role("heading", name="Owners")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    page.wait_for_load_state()
    # htmx notes the path of the page that is open, in this tab; no page and nothing of the one before.
    assert page.evaluate("[localStorage.length, Object.values(sessionStorage)]") == [0, ["/console/sign-in"]]
    page.goto("/console/pipeline")
    expect(page.get_by_label("Token")).to_be_visible()
