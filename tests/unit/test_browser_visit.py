"""What every kind of pages does for who is not signed in, over their own routes: the console's, and those of users."""

from __future__ import annotations

import asyncio
import functools
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from ingress.browser.sign_in import SignIn
from ingress.browser.visit import Visit
from ingress.console import routes as console_routes
from ingress.console.state import Console
from ingress.console.visit import Visit as ConsoleVisit
from ingress.http.parts import Parts
from ingress.http.store import Store
from ingress.identity.authorization_code import AuthorizationCode
from ingress.identity.caller import Caller
from ingress.identity.denials import Denials
from ingress.social.config import SocialConfig
from ingress.social.pages import routes as user_routes
from ingress.social.pages.session import Pages
from ingress.social.pages.visit import Visit as UserVisit
from schemas import errors
from schemas.operators import access_denial
from schemas.social.media_origin import MediaOrigin
from sinks.kafka.connection import KafkaConnection

SECRET = b"k" * 32
TOKEN = re.compile(r'name="form_token" value="([0-9a-f]{64})"')
BOTH = pytest.mark.parametrize("visits", [ConsoleVisit, UserVisit], ids=["console", "users"])
SCRIPT = {"console": {"hx-request": "true"}, "app": {"x-part": "1"}}


@dataclass
class Listed:
    """The list of denials as Postgres gives it."""

    denied: list[tuple[str, str, float | None]]

    async def rows(self, _query: str, _parameters: Any) -> list[tuple[Any, ...]]:
        return [(time.time(), 1, *row) for row in self.denied] or [(time.time(), 1, None, None, None)]


@functools.cache  # its templates are compiled once: it keeps nothing of a browser
def application(*denied: tuple[str, str, float | None]) -> FastAPI:
    """Both kinds of pages, where no database is to be asked."""
    store, denials = Store("", synchronous_commit="on", packages=(), pool_max=1), Denials(Listed(list(denied)))
    app = FastAPI()
    app.state.parts = Parts()
    app.state.parts.add(Console("", SECRET, KafkaConnection(bootstrap="localhost:1"), [], denials))
    app.state.parts.add(AuthorizationCode(None, denials))
    app.state.parts.add(Pages(store, SECRET, denials))
    media = MediaOrigin(url="http://media.example", uploads_url="http://parts.example", key=SECRET, folder=Path("none"))
    app.state.parts.add(SocialConfig(media=media))
    for router in (*console_routes.routers([]), *user_routes.ROUTERS):
        app.include_router(router)
    return app


def asked(*calls: dict[str, Any], host: str = "localhost", app: FastAPI | None = None) -> list[httpx.Response]:
    """The answers to one browser after the other's cookies; ``form_token`` of a form is that of the page before."""

    async def ask() -> list[httpx.Response]:
        found: list[httpx.Response] = []
        transport = httpx.ASGITransport(app or application())
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as browser:
            for call in calls:
                data = call.get("data")
                if data is not None and data.get("form_token") == "given":
                    data["form_token"] = TOKEN.search(found[-1].text)[1]  # type: ignore[index]  # it is there
                found.append(await browser.request(**{"method": "GET"} | call))
        return found

    return asyncio.run(ask())


@BOTH
@pytest.mark.parametrize(("host", "is_secure"), [("localhost", False), ("pages.example", True)])
def test_a_cookie_is_kept_from_scripts_from_other_sites_and_from_other_pages(
    visits: type[Visit[Any]], host: str, is_secure: bool
) -> None:
    (page,) = asked({"url": visits.site.sign_in}, host=host)
    name, _, flags = page.headers["set-cookie"].partition("=")
    assert name == visits.site.visitor
    wanted = {"HttpOnly", "SameSite=strict", f"Path={visits.site.home}"} | ({"Secure"} if is_secure else set())
    assert set(flags.split("; ")[1:]) == wanted


def test_no_cookie_of_one_kind_of_pages_has_a_name_of_the_others() -> None:
    names = [name for site in (ConsoleVisit.site, UserVisit.site) for name in (site.cookie, site.visitor, site.theme)]
    assert len(set(names)) == len(names)


@BOTH
def test_a_form_is_of_the_browser_that_was_shown_it(visits: type[Visit[Any]]) -> None:
    """Every form: signing in, signing out, the theme."""
    site = visits.site
    shown = {"url": site.sign_in}
    good = {"method": "POST", "url": f"{site.home}/theme", "data": {"form_token": "given", "theme": "dark"}}
    _, done = asked(shown, good)
    assert (done.status_code, done.headers["location"]) == (303, site.home)
    assert done.headers["set-cookie"].startswith(f"{site.theme}=dark;")
    for path in ("/theme", "/sign-in", "/sign-out"):
        form = {"method": "POST", "url": f"{site.home}{path}", "data": {"form_token": "0" * 64}}
        others = {"headers": {"sec-fetch-site": "cross-site"}, "data": {"form_token": "given"}}
        for wrong in (form, form | {"data": {}}, form | others):
            _, answer = asked(shown, wrong)
            assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)


@BOTH
def test_who_is_not_signed_in_is_led_to_the_sign_in_and_back_to_nowhere_else(visits: type[Visit[Any]]) -> None:
    site = visits.site
    (page,) = asked({"url": f"{site.home}/no/such"})
    assert (page.status_code, page.headers["location"]) == (303, f"{site.sign_in}?next={site.home}/no/such")
    for target, goes in ((f"{site.home}/x", f"{site.home}/x"), ("//evil.example", site.home), ("/v1", site.home)):
        form = {"method": "POST", "url": f"{site.home}/theme", "data": {"form_token": "given", "next": target}}
        assert asked({"url": site.sign_in}, form)[1].headers["location"] == goes


@BOTH
def test_a_script_is_sent_no_page_in_place_of_a_part(visits: type[Visit[Any]]) -> None:
    (answer,) = asked({"url": f"{visits.site.home}/no/such", "headers": SCRIPT[visits.site.home[1:]]})
    assert (answer.status_code, "location" in answer.headers) == (401, False)


@BOTH
@pytest.mark.parametrize("kind", [access_denial.SUBJECT, access_denial.TOKEN, "user"])
def test_the_session_of_a_person_who_is_denied_is_over(visits: type[Visit[Any]], kind: str) -> None:
    """Its cookie is as good as before; the database need not be asked whether it has ended."""
    site = visits.site
    name = {access_denial.SUBJECT: "ann", access_denial.TOKEN: "t_1", "user": "u_1"}[kind]
    app = application((kind, name, None))
    sessions = app.state.parts.get(visits.signed_in).sessions
    scopes = frozenset({"operator", "posts:read"})
    cookie = sessions.cookie(
        sessions.opened(
            Caller(principal="user:u_1", subject="ann", scopes=scopes, expires_at=time.time() + 60, token_id="t_1")
        )
    )
    assert sessions.read(cookie).subject == "ann"
    (answer,) = asked({"url": f"{site.home}/no/such", "headers": {"Cookie": f"{site.cookie}={cookie}"}}, app=app)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{site.sign_in}?next={site.home}/no/such")


@BOTH
def test_files_are_those_of_known_types_in_the_folder_and_no_others(visits: type[Visit[Any]]) -> None:
    home = visits.site.home
    found = asked(
        {"url": f"{home}/static/icon.svg"}, *({"url": f"{home}/static/{name}"} for name in ("x.css", "visit.py"))
    )
    assert [answer.status_code for answer in found] == [200, 404, 404]
    assert found[0].headers["content-type"] == "image/svg+xml"
    assert found[0].headers["cache-control"] == "max-age=300"
    assert found[0].headers["content-security-policy"].startswith("default-src 'none'")


def test_what_an_editor_leaves_beside_the_files_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "left_beside" / "static").mkdir(parents=True)
    (tmp_path / "left_beside" / "__init__.py").touch()
    for name in ("a.css", "a.css~", "notes.txt", "secret"):
        (tmp_path / "left_beside" / "static" / name).write_text("x")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(UserVisit, "site", replace(UserVisit.site, package="left_beside"))
    files = SignIn(UserVisit)
    assert asyncio.run(files.file("a.css")).media_type == "text/css"
    for name in ("a.css~", "notes.txt", "secret"):
        with pytest.raises(errors.NotFound):
            asyncio.run(files.file(name))
