"""Users of social posts, as clients see the service."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx

from compose.proof.social.client import SocialClient
from dataflows.social.config import SocialConfig
from ingress.identity.issuer import SCOPES_OF_USERS, KeyFolder
from tests import servers
from tests.eventually import patient
from tests.worlds.public_system import system_of_its_own

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.worlds.public_system import PublicSystem

Json = dict[str, Any]
_clients: dict[str, httpx.Client] = {}


@contextmanager
def social_system(home: Path, *workers: str, services: tuple[str, ...] = ("ingress",)) -> Iterator[PublicSystem]:
    """A system of its own with an owner, these workers and one ingress, and one client that all of its users share.

    Homes lie apart from its counters.
    """
    changes: Json = {"services": services, "ingress_processes": 1, "processes": ("social_owner", *workers)}
    homes = servers.another_valkey_database()
    with system_of_its_own(home, social_homes_url=homes, **changes) as made, sharing_a_client(made):
        yield made


@contextmanager
def sharing_a_client(system: PublicSystem) -> Iterator[None]:
    """Users of this system can be made meanwhile."""
    with httpx.Client(base_url=system.base_url, timeout=patient(40), trust_env=False) as client:
        _clients[system.base_url] = client
        yield
    del _clients[system.base_url]


def social_config(system: PublicSystem) -> SocialConfig:
    """What the platform gives to workers of this service."""
    settings = system.settings
    return SocialConfig(media=settings.media_origin(), homes_url=settings.addresses().social_homes_url)


class SocialUser:
    """A user with a token of its own; ``send`` and ``get`` give the httpx response, ``do`` and ``read`` what is in it."""

    def __init__(self, system: PublicSystem, scopes: tuple[str, ...] = SCOPES_OF_USERS, name: str = "") -> None:
        self.name = name or f"u_{uuid.uuid4().hex[:12]}"
        token = system.token(self.name, scopes, kind="user")
        self.auth = {"Authorization": f"Bearer {token}", "Prefer": "wait=30"}
        self.http = _clients[system.base_url]

    def get(self, path: str, **params: Any) -> httpx.Response:
        return self.http.get(path, params=params, headers=self.auth)

    def send(
        self, method: str, path: str, payload: Json | None = None, key: str = "", version: int | None = None
    ) -> httpx.Response:
        headers = self.auth | {"Idempotency-Key": key or uuid.uuid4().hex}
        if version is not None:
            headers["If-Match"] = f'"{version}"'
        body = None if method == "DELETE" else payload or {}
        return self.http.request(method, path, json=body, headers=headers)

    def do(self, method: str, path: str, payload: Json | None = None, version: int | None = None) -> Json:
        answer = self.send(method, path, payload, version=version)
        assert answer.status_code in {200, 201}, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()["result"]

    def post(self, text: str, **fields: Any) -> Json:
        return self.do("POST", "/v1/posts", {"text": text} | fields)

    def follow(self, *others: SocialUser) -> None:
        for other in others:
            self.do("PUT", f"/v1/follows/{other.name}")

    def read(self, path: str, **params: Any) -> Json:
        answer = self.get(path, **params)
        assert answer.status_code == 200, f"GET {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def walk(self, path: str, limit: int = 100, **params: Any) -> list[Json]:
        """All of a list, by its cursors."""
        found: list[Json] = []
        while True:
            page = self.read(path, limit=limit, **params)
            assert len(page["data"]) <= limit
            found += page["data"]
            if not page["has_more"]:
                return found
            params["cursor"] = page["next_cursor"]

    def ids(self, path: str, limit: int = 100, **params: Any) -> list[str]:
        return [post["post_id"] for post in self.walk(path, limit, **params)]

    @property
    def home(self) -> list[str]:
        return self.ids("/v1/timelines/home")


def client_of(system: PublicSystem, *scopes: str) -> SocialClient:
    """A user as the soak's and the demo's are."""
    keys = KeyFolder(system.settings.the_home().path / "keys")
    return SocialClient(_clients[system.base_url], keys, f"u_{uuid.uuid4().hex[:12]}", scopes)


def refused(answer: httpx.Response, status: int, code: str) -> Json:
    """The problem, which is this one."""
    problem = answer.json()
    assert (answer.status_code, problem.get("code")) == (status, code), answer.text
    return problem
