"""People sign in at an outside issuer, in a browser: the authorization code flow with PKCE, at a provider that demands it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import httpx
import psycopg
import pytest
from playwright.sync_api import expect

from tests.eventually import patient
from tests.worlds import oidc_provider
from tests.worlds.browser import WAIT_MS, Window, chromium
from tests.worlds.ports_of_ours import free_ports
from tests.worlds.public_system import PublicSystem, system_of_its_own

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

__all__ = ["chromium"]  # the fixtures of this module
pytestmark = pytest.mark.servers
expect.set_options(timeout=WAIT_MS)
BEGIN = "/console/sign-in/issuer"
BACK = f"{BEGIN}/back"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    """An ingress that believes this issuer, and sends people there."""
    ingress_port, port = free_ports(2)
    origin = f"http://127.0.0.1:{ingress_port}"
    changes: dict[str, Any] = {
        "services": ("ingress",),
        "ingress_processes": 1,
        "ingress_port": ingress_port,
        "sign_in_client": oidc_provider.CLIENT,
        "sign_in_client_secret": oidc_provider.SECRET,
        "sign_in_origin": origin,
        "sign_in_claim": "roles",
    }
    with oidc_provider.running(port, origin + BACK, f"{origin}/app/sign-in/issuer/back") as issuer:
        trust = {"issuer": issuer, "jwks_url": f"{issuer}/jwks"}
        with system_of_its_own(tmp_path_factory.mktemp("sign-in"), **changes, **trust) as made:
            assert made.base_url == origin
            yield made


def sign_in(page: Page, name: str) -> None:
    """At the issuer, as it asks: who one is, then whether Millrace may know."""
    page.route(lambda url: not url.startswith("http://127.0.0.1:"), lambda found: found.abort())  # its fonts
    page.get_by_role("link", name="Sign in at your organisation").click()
    page.locator("[name=login]").fill(name)
    page.locator("[name=password]").fill("any")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()


def test_staff_signs_in_at_its_organisation_and_comes_to_where_it_wanted(
    chromium: Browser, system: PublicSystem
) -> None:
    window = Window(chromium, system.base_url)
    page = window.page
    page.goto("/console/grants")
    sign_in(page, "ann:operator:support")
    expect(page.get_by_role("heading", name="Support grants")).to_be_visible()
    assert "ann:operator:support" in page.content()
    names = {cookie["name"]: cookie["sameSite"] for cookie in window.context.cookies()}
    assert names["millrace_console"] == "Strict"
    assert "millrace_console_begun" not in names
    audited = b"select outcome from audit_log where action = 'console.sign_in' and actor = 'ann:operator:support'"
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn) as superuser:
        assert superuser.execute(audited).fetchall() == [("done",)]
    window.context.close()  # what the issuer's own pages complain about is not ours


def test_whoever_has_no_scope_for_these_pages_is_told_so(chromium: Browser, system: PublicSystem) -> None:
    window = Window(chromium, system.base_url)
    window.page.goto("/console")
    sign_in(window.page, "bob:posts:read")
    expect(window.page.get_by_role("alert")).to_be_visible()
    assert "millrace_console" not in {cookie["name"] for cookie in window.context.cookies()}
    window.context.close()


def test_no_answer_but_that_to_what_this_browser_began_opens_a_session(system: PublicSystem) -> None:
    """Forged, old or twice: each is refused before the issuer is asked, and the next try begins anew."""
    with httpx.Client(base_url=system.base_url, trust_env=False) as browser:
        begun = browser.get(BEGIN, params={"next": "https://elsewhere.example/"})
        asked = {name: values for name, (values,) in parse_qs(urlsplit(begun.headers["location"]).query).items()}
        assert (begun.status_code, asked["code_challenge_method"], asked["redirect_uri"]) == (
            303,
            "S256",
            system.base_url + BACK,
        )
        assert asked.keys() >= {"state", "nonce", "code_challenge", "client_id"}
        assert len({browser.get(BEGIN).headers["location"] for _ in range(3)}) == 3
        cookie = begun.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=lax" in cookie.lower()
        state = parse_qs(urlsplit(browser.get(BEGIN).headers["location"]).query)["state"][0]
        for forged in (
            {"code": "c", "state": asked["state"]},  # of the try before
            {"code": "c"},
            {"code": "c", "state": state, "iss": "https://other.example"},
            {"error": "access_denied<b>", "state": state},
            {"code": "nobody's", "state": state},
        ):
            jar = dict(browser.cookies)
            refused = httpx.get(
                system.base_url + BACK, params=forged, cookies=jar, trust_env=False, timeout=patient(20)
            )
            assert (refused.status_code, "millrace_console=" in refused.headers["set-cookie"]) == (401, False), forged
            assert "access_denied<b>" not in refused.text
        nobody = httpx.get(
            system.base_url + BACK, params={"code": "c", "state": state}, trust_env=False, timeout=patient(20)
        )
        assert (nobody.status_code, "begun no sign-in" in nobody.text) == (401, True)
        other = httpx.get(
            system.base_url + BACK,
            params={"code": "c"},
            cookies={"millrace_console_begun": "x"},
            trust_env=False,
            timeout=patient(20),
        )
        assert other.status_code == 401
