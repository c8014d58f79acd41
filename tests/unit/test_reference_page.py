"""The page of all calls: nothing of the OpenAPI document is left out, every link leads somewhere, nothing runs."""

from __future__ import annotations

import asyncio
import gzip
import re
from collections import Counter
from typing import Any, Final

import httpx
import pytest
from fastapi import FastAPI
from markupsafe import escape

from ingress import openapi
from ingress.reference import described, routes
from tests.each import each

DOCUMENT: Final = openapi.document()


def answers(*paths: str, **headers: str) -> list[httpx.Response]:
    app = FastAPI(docs_url=None)
    app.include_router(routes.router)

    async def ask() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://api.test") as client:
            return [await client.get(path, headers=headers) for path in paths]

    return asyncio.run(ask())


@pytest.fixture(scope="module")
def page() -> str:
    (found,) = answers("/docs")
    assert found.status_code == 200
    assert found.headers["content-type"] == "text/html; charset=utf-8"
    return found.text


def test_the_bare_address_leads_there() -> None:
    (found,) = answers("/")
    assert (found.status_code, found.headers["location"]) == (307, "/docs")


def test_every_call_is_on_it_with_what_it_needs_and_answers(page: str) -> None:
    calls = {call.name: call for group in described.groups(DOCUMENT) for call in group.calls}
    operations = {one["operationId"]: one for item in DOCUMENT["paths"].values() for one in item.values()}
    assert calls.keys() == operations.keys()
    told = {value.name for value in described.shared_fields(DOCUMENT)}
    for name, operation in operations.items():
        call = calls[name]
        assert f'<div id="{name}">' in page
        assert call.scopes == [scope for one in operation["security"] for scope in one.get("bearer", ())]
        assert {v.name for v in call.values} | set(call.shared) == {p["name"] for p in operation["parameters"]}
        assert set(call.shared) <= told
        assert {a.status for a in (*call.answers, *call.refusals)} == operation["responses"].keys()
        for text in (call.path, call.summary, *call.scopes, *(a.about for a in call.refusals), call.body_example):
            assert escape(text) in page
    for name in DOCUMENT["components"]["schemas"]:
        assert f'<div id="schema-{name}">' in page


def test_every_link_leads_somewhere_and_every_place_has_one_name(page: str) -> None:
    places = Counter(re.findall(r' id="([^"]+)"', page))
    assert [place for place, count in places.items() if count > 1] == []
    links = set(re.findall(r' href="([^"]+)"', page))
    assert {link[1:] for link in links if link.startswith("#")} <= places.keys()
    assert {link for link in links if not link.startswith("#")} == {
        *("/openapi.json", "/docs/static/reference.css", "/docs/static/icon.svg")
    }


def test_nothing_of_it_runs_and_nothing_comes_from_elsewhere(page: str) -> None:
    assert not re.search(r"<(script|style|iframe|img|form)\b|\son\w+=|\sstyle=|\ssrc=", page)
    found, styles, icon = answers("/docs", "/docs/static/reference.css", "/docs/static/icon.svg")
    assert found.headers["content-security-policy"].startswith("default-src 'none'; style-src 'self'")
    assert "script-src" not in found.headers["content-security-policy"]
    assert styles.headers["content-type"].startswith("text/css")
    assert "url(" not in styles.text
    assert "@import" not in styles.text
    assert icon.headers["content-type"] == "image/svg+xml"


def test_it_travels_small_to_who_takes_that() -> None:
    (small,) = answers("/docs", **{"Accept-Encoding": "gzip"})
    (whole,) = answers("/docs", **{"Accept-Encoding": "identity"})
    assert small.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in whole.headers
    assert small.headers["vary"] == whole.headers["vary"] == "Accept-Encoding"
    assert small.text == whole.text
    assert len(gzip.compress(whole.content)) < 100_000


@each(
    ("schema", "words"),
    [
        ({"$ref": "#/components/schemas/Problem"}, "Problem"),
        ({"type": "string", "minLength": 1, "maxLength": 40}, "string, 1 to 40 characters"),
        ({"type": ["string", "null"], "format": "date-time"}, "date-time or null"),
        ({"type": "integer", "minimum": 0}, "integer, at least 0"),
        ({"enum": [*"abcdefghijklmn"]}, "one of a, b, c, d, e, f, g, h, i, j, k, l and 2 more"),
        ({"type": "array", "items": {"$ref": "#/components/schemas/A"}, "maxItems": 3}, "list of A, at most 3 items"),
        ({"anyOf": [{"type": "boolean"}, {"const": "all"}]}, 'boolean or "all"'),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "object of string"),
        ({"type": "object", "properties": {"a": {}, "b": {}}}, "object with a, b"),
        ({}, "any value"),
    ],
)
def test_what_a_value_is_in_words(schema: dict[str, Any], words: str) -> None:
    assert "".join(one.text for one in described.kind_of(schema)) == words
