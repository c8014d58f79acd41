"""Every block of "five lines to a limit" does what the words beside it say; and it needs what its extra brings, alone."""

from __future__ import annotations

import asyncio
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import httpx
import pytest

ROOT: Final = Path(__file__).parents[3]
_BLOCK: Final = re.compile(r"^## (?P<title>.+?)$|^```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> dict[str, list[str]]:
    """The code of the page under its headings."""
    found: dict[str, list[str]] = {}
    title = ""
    for match in _BLOCK.finditer((ROOT / "docs" / "limits.md").read_text(encoding="utf-8")):
        title = match["title"] or title
        if match["code"] is not None:
            found.setdefault(title.split(":")[0].split(",")[0], []).append(match["code"])
    return found


BLOCKS: Final = blocks()


def run(title: str, at: int = 0) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "a_page"}
    exec(compile(BLOCKS[title][at], title, "exec"), names)
    names["limits"]._now_us = lambda: 1_800_000_000_000_000  # a slow machine refills nothing
    return names


def asked(app: Any, count: int, method: str = "GET", **headers: str) -> list[httpx.Response]:
    """The answers of an ASGI application."""

    async def ask() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://page") as client:
            return [await client.request(method, "/search", headers=headers) for _ in range(count)]

    return asyncio.run(ask())


def test_no_block_is_left_out() -> None:
    assert {title: len(found) for title, found in BLOCKS.items()} == {
        "Anywhere": 2,
        "FastAPI": 2,
        "Flask": 1,
        "Django": 1,
        "One function": 1,
    }


def test_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    limits = run("Anywhere")["limits"]
    assert capsys.readouterr().out == "True 9 0\n"
    assert sum(limits.check("shop", "other", "/search").allowed for _ in range(30)) == 10
    names = run("Anywhere", 1)
    assert (names["decided"].remaining, names["decided"].policy_id) == (7, "pl_1")
    assert not names["limits"].check("shop", "another", "/other", cost=11).allowed


@pytest.mark.parametrize("at", [0, 1])
def test_asgi(at: int) -> None:
    answers = asked(run("FastAPI", at)["app"], 12)
    assert [one.status_code for one in answers] == [200] * 10 + [429] * 2
    assert answers[-1].headers["retry-after"] == "1"
    if at == 1:
        assert answers[0].headers["ratelimit-policy"] == '"pl_1";q=10;w=1'
        assert answers[0].headers["ratelimit"].startswith('"pl_1";r=9;')


def test_asgi_charges_a_retry_once() -> None:
    told = asked(run("FastAPI", 1)["app"], 12, "POST", **{"Idempotency-Key": "k"})
    assert [one.status_code for one in told] == [200] * 12


def test_wsgi() -> None:
    client = run("Flask")["app"].test_client()
    answers = [client.get("/search") for _ in range(11)]
    assert [one.status_code for one in answers] == [200] * 10 + [429]
    assert answers[0].text == "found"
    assert answers[0].headers["RateLimit-Policy"] == '"pl_1";q=10;w=1'
    assert answers[-1].headers["Retry-After"] == "1"
    assert answers[-1].headers["RateLimit"] == '"pl_1";r=0;t=1'


@dataclass
class HttpResponse:
    """As Django's is made (5.x, ``django.http``), which is not installed here: content, status, and fields of its own."""

    content: str
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class HttpRequest:
    """What the view reads of Django's."""

    META: dict[str, str]


def test_a_view(monkeypatch: pytest.MonkeyPatch) -> None:
    django = ModuleType("django.http")
    vars(django)["HttpResponse"] = HttpResponse
    monkeypatch.setitem(sys.modules, "django", ModuleType("django"))
    monkeypatch.setitem(sys.modules, "django.http", django)
    view = run("Django")["search"]
    answers = [view(HttpRequest({"REMOTE_ADDR": "192.0.2.7"})) for _ in range(11)]
    assert answers == [HttpResponse("found")] * 10 + [HttpResponse("later", 429, {"Retry-After": "1"})]
    assert view(HttpRequest({"REMOTE_ADDR": "192.0.2.8"})) == HttpResponse("found")


def test_one_function() -> None:
    names = run("One function")
    assert [names["search"]() for _ in range(10)] == ["found"] * 10
    names["limits"].use({"algorithm": "deny"})
    with pytest.raises(RuntimeError, match="later"):
        names["search"]()


_ALONE: Final = """
import sys
class Foreign:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ImportError(f"{name} is not of the limiter")
sys.meta_path.insert(0, Foreign())
from limiter import Decision, InProcessLimiter, Limiter, SyncLimiter
import limiter.edge.asgi, limiter.edge.wsgi, limiter.frames.frame_client_async, limiter.frames.frame_fleet
import limiter.policy.follower, limiter.store.sharded_store, limiter.stream.decisions
print(InProcessLimiter({"algorithm": "fixed_window", "capacity": 1, "window_ms": 60000}).check("t", "u", "/r").allowed)
"""


def test_the_extra_brings_all_that_the_limiter_needs() -> None:
    """Nothing else of the platform can be imported in that process."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    own, every = ({re.split(r"[\[><=;~! ]", one)[0].lower() for one in extras[n]} for n in ("limiter", "platform"))
    assert own < every
    others = every - own - {"rich"}  # structlog takes it where it is there
    modules = importlib.metadata.packages_distributions()
    blocked = {module for module, names in modules.items() if {name.lower() for name in names} & others}
    assert {"bytewax", "confluent_kafka", "fastapi", "grpc", "psycopg"} <= blocked
    done = subprocess.run(
        [sys.executable, "-c", f"BLOCKED = {blocked!r}\n{_ALONE}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr[-2_000:]
