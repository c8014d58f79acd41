"""The page of all calls in headless chromium: the bare address leads to it, it fits a desk and a phone, links open calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.worlds.browser import DESK, WAIT_MS, Window, chromium, fits
from tests.worlds.public_system import public

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.worlds.public_system import PublicSystem

__all__ = ["chromium", "public"]  # the fixtures of this module
pytestmark = pytest.mark.servers

expect.set_options(timeout=WAIT_MS)


def test_whoever_opens_the_address_reads_every_call(chromium: Browser, public: PublicSystem) -> None:
    window = Window(chromium, public.base_url, viewport=DESK)
    page = window.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto("/")
    expect(page).to_have_url(f"{public.base_url}/docs")
    expect(page.get_by_role("heading", level=1)).to_have_text("Every call of the API")
    assert fits(page)
    page.get_by_role("navigation").get_by_text("payments", exact=False).first.click()
    page.get_by_role("link", name="Create a payment intent").click()
    call = page.locator("#create_payment_intent")
    expect(call.get_by_role("heading")).to_be_visible()  # what a link leads to is open
    call.get_by_role("link", name="CreatePaymentIntentPayload").click()
    expect(page.locator("#schema-CreatePaymentIntentPayload").get_by_text("minor units")).to_be_visible()
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert fits(page)
    assert all(url.startswith(f"{public.base_url}/") for url in asked), asked
    assert window.close() == []
