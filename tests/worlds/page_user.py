"""A user at the pages without scripts: cookies are kept, forms carry their token, redirects are not followed."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

import httpx
import pytest

from ingress.identity.issuer import SCOPES_OF_USERS
from tests.eventually import patient
from tests.worlds.public_system import public

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.public_system import PublicSystem

__all__ = ["public"]  # the fixture of here and there

_FORM_TOKEN = re.compile(r'name="form_token" value="([0-9a-f]{64})"')
_CARD = re.compile(r'<article class="post[^"]*" id="(po_[a-z0-9]+)"')


class PageUser:
    """Signed in, unless without scopes."""

    def __init__(self, system: PublicSystem, scopes: tuple[str, ...] = SCOPES_OF_USERS, name: str = "") -> None:
        self.name = name or f"u_{uuid.uuid4().hex[:12]}"
        self.http = httpx.Client(base_url=system.base_url, timeout=patient(40), trust_env=False)
        if scopes:
            answer = self.sign_in(system.token(self.name, scopes, kind="user"))
            assert (answer.status_code, answer.headers["location"]) == (303, "/app"), answer.text

    def sign_in(self, token: str) -> httpx.Response:
        return self.press("/app/sign-in", page="/app/sign-in", token=token)

    def get(self, path: str) -> httpx.Response:
        return self.http.get(path)

    def form_token(self, page: str = "/app/settings") -> str:
        found = _FORM_TOKEN.search(self.get(page).text)
        assert found, page
        return found[1]

    def press(self, path: str, page: str = "/app/settings", **fields: str) -> httpx.Response:
        """A form of ours, sent; with a key of its own unless one is given."""
        said = {"form_token": self.form_token(page), "key": uuid.uuid4().hex} | fields
        return self.http.post(path, data=said)

    def done(self, path: str, **fields: str) -> str:
        """Pressed, and done: where the browser goes next."""
        answer = self.press(path, **fields)
        assert answer.status_code == 303, f"{path}: {answer.status_code} {answer.text}"
        return str(answer.headers["location"])

    def post(self, text: str, **fields: str) -> str:
        """The id of a new post."""
        return self.done("/app/posts", text=text, next="/app", **fields).partition("#")[2]

    def cards(self, path: str) -> list[str]:
        """The posts of a page."""
        answer = self.get(path)
        assert answer.status_code == 200, f"{path}: {answer.status_code}"
        return _CARD.findall(answer.text)


PageUsers = Callable[..., PageUser]


@pytest.fixture
def page_users(public: PublicSystem) -> Iterator[PageUsers]:
    """Makes users; without scopes, a stranger."""
    made: list[PageUser] = []

    def make(scopes: tuple[str, ...] = SCOPES_OF_USERS) -> PageUser:
        made.append(PageUser(public, scopes))
        return made[-1]

    yield make
    for user in made:
        user.http.close()


@pytest.fixture
def ann(page_users: PageUsers) -> PageUser:
    return page_users()


@pytest.fixture
def bob(page_users: PageUsers) -> PageUser:
    return page_users()
