"""The routes of a path are found as if each were tried, and what none of them takes is refused without trying them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from fastapi import APIRouter
from starlette.responses import Response
from starlette.routing import Match, Mount, Route

from ingress.app import ROUTERS
from ingress.http.routing.known_paths import KnownPaths
from tests.contracts.test_schema_registry import Registry, call, registry

__all__ = ["registry"]  # the fixture of this module

ROUTES = [route for router in ROUTERS for route in router.routes]
STRANGE = ("", "/", "//", "\n", "/\n", "/v1", "/v1/", "/v1//", "/v1/nothing", "/{rest}", "/v1/{id}", "/\x00", "/" * 400)
#: what stands for an id
IDS = ("a", "a.b", "a\n", "ä", "")


def tried(routes: list[Any], path: str) -> list[Any]:
    scope = {"type": "http", "method": "GET", "path": path, "root_path": ""}
    return [route for route in routes if route.matches(scope)[0] is not Match.NONE]


def paths() -> list[str]:
    """Of each route with several ids, and near misses of the first."""
    first, *others = ({re.sub(r"{\w+}", said, route.path_format) for route in ROUTES} for said in IDS)  # type: ignore[attr-defined]
    near = {f(path) for path in first for f in (lambda p: p + "/", lambda p: p + "\n", lambda p: p[:-1])}
    return sorted(first.union(near, STRANGE, *others))


def test_routes_are_found_as_if_each_were_tried() -> None:
    known, found = KnownPaths(ROUTES), 0
    for path in paths():
        expected = tried(ROUTES, path)
        assert [id(route) for route in known.of(path)] == [id(route) for route in expected], path
        methods = {method for route in expected for method in route.methods}
        assert known.methods(path) == sorted(methods | {"HEAD"} if "GET" in methods else methods)
        found += len(expected)
    assert found > len(ROUTES)


def test_ids_of_slashes_and_of_parts_of_segments_are_found_in_their_order() -> None:
    router = APIRouter()
    for path in ("/a/{rest:path}", "/a/{name}.json", "/{one}/b", "/a/b", "/a/{number:int}"):
        router.get(path)(lambda: None)
    known = KnownPaths(router.routes)
    for path in ("/a/b", "/a/b.json", "/a/7", "/c/b", "/a/b/c", "/a/", "/a", "/a/b\n", "/a/b\n\n"):
        assert [id(r) for r in known.of(path)] == [id(r) for r in tried(router.routes, path)], path


def test_what_has_no_path_of_its_own_is_no_route() -> None:
    with pytest.raises(TypeError, match="Mount"):
        KnownPaths([Mount("/files", Response())])


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/nothing", None),
        ("/nothing", None),
        ("/v1/payment_intents/a/b/c", None),
        ("/v1/payment_intents", "GET, HEAD, POST"),
        ("/v1/payment_intents/pi_1", "GET, HEAD, POST"),
        ("/healthz", "GET, HEAD"),
        ("/console/no/page", "GET, HEAD"),
        ("/openapi.json", None),
    ],
)
def test_a_refusal_says_what_may_be_asked_for_and_tries_no_route(
    registry: Registry, path: str, allowed: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = [0]
    matches = Route.matches

    def counted(route: Route, scope: Any) -> Any:
        count[0] += 1
        return matches(route, scope)

    monkeypatch.setattr(Route, "matches", counted)
    answer = call(registry, "DELETE", path)
    assert count[0] <= 1  # FastAPI's own, of the document
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers.get("allow") == allowed
    status, code, detail = (
        (404, "not_found", "There is no such route.")
        if allowed is None
        else (405, "method_not_allowed", f"Use {allowed} here.")
    )
    body = json.loads(answer.content)
    assert (answer.status_code, body["status"], body["code"], body["detail"]) == (status, status, code, detail)


def test_clients_of_the_registry_are_refused_in_their_words(registry: Registry) -> None:
    lost, wrong = call(registry, "GET", "/subjects/a/b/c"), call(registry, "DELETE", "/subjects")
    assert (lost.status_code, lost.json()) == (404, {"error_code": 404, "message": "Not Found"})
    assert (wrong.status_code, wrong.json()) == (405, {"error_code": 405, "message": "Method Not Allowed"})
    assert wrong.headers["allow"] == "GET, HEAD"
