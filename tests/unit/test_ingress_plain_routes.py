"""A route that asks FastAPI for nothing is served without it, and matches and answers exactly as before."""

from __future__ import annotations

import asyncio
from typing import Annotated

import httpx
import pytest
from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from ingress.app import ROUTERS
from ingress.http.routing.plain_routes import FixedPaths, Queries, plain_routes
from schemas import errors
from schemas.services import OPERATIONS


class Own(APIRoute):
    """Such as the console has, whose pages answer a refusal with a page."""


router, own = APIRouter(), APIRouter(route_class=Own)


@own.get("/pages/{page_id}")
async def page(request: Request, page_id: str) -> Response:
    return Response(f"{request.method} {page_id}")


@router.get("/things/{thing_id}")
async def plain(request: Request, thing_id: str) -> Response:
    return Response(f"{request.method} {thing_id}")


@router.get("/unasked/{thing_id}")  # noqa: FAST003 - this is what is tried
async def unasked(request: Request) -> Response:
    return Response(f"{request.method} {request.path_params['thing_id']}")


@router.get("/numbers/{number}")
async def converted(request: Request, number: int) -> Response:
    return Response(f"{request.method} {number + 1}")


@router.get("/injected")
async def injected(request: Request, word: Annotated[str, Depends(lambda: "given")]) -> Response:
    return Response(f"{request.method} {word}")


@router.get("/queried")
async def queried(request: Request, word: str) -> Response:
    return Response(f"{request.method} {word}")


def test_only_a_route_that_needs_nothing_is_served_without_fastapi() -> None:
    found = plain_routes([own, router])
    assert [route.path for route in found] == ["/things/{thing_id}", "/unasked/{thing_id}"]
    app = FastAPI()
    app.router.routes.extend(found)
    app.include_router(router)
    asked = (
        ("GET", "/things/a"),
        ("HEAD", "/things/a"),
        ("GET", "/unasked/a"),
        ("GET", "/numbers/4"),
        ("GET", "/injected"),
        ("GET", "/queried?word=a"),
    )

    async def ask() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
            return [await client.request(*call) for call in asked]

    answers = asyncio.run(ask())
    assert [answer.status_code for answer in answers] == [200, 405, 200, 200, 200, 200]
    texts = [answer.text for answer in answers if answer.status_code == 200]
    assert texts == ["GET a", "GET a", "GET 5", "GET given", "GET a"]


@pytest.mark.parametrize("query", ["word=%FF", "word=%C3", "%ED%A0%80=a", "word=a&x=%E2%82"])
def test_a_query_that_is_no_utf_8_is_refused(query: str) -> None:
    """It would be read as U+FFFD: two values would be one, and a list filtered by another one than was meant."""
    request = Request({"type": "http", "method": "GET", "query_string": query.encode(), "headers": []})
    with pytest.raises(errors.MalformedRequest, match="UTF-8"):
        Queries(dict).require_known(request, "/things")


def test_a_query_of_utf_8_is_read() -> None:
    request = Request({"type": "http", "method": "GET", "query_string": b"word=%E2%82%AC+%F0%9F%8C%8D", "headers": []})
    Queries(dict).require_known(request, "/things")
    assert request.query_params["word"] == "\u20ac \U0001f30d"


def first_of(routes: list[Route], scope: dict[str, str]) -> object:
    """Who answers, when one after the other is tried."""
    return next((route.endpoint for route in routes if route.matches(scope)[0] is Match.FULL), None)


def test_a_path_without_ids_is_answered_by_whom_it_was_answered_before() -> None:
    overlapping = APIRouter()
    overlapping.get("/things/{thing_id}")(plain)
    for path in ("/things/new", "/fixed"):
        overlapping.get(path)(unasked)
        overlapping.post(path)(unasked)
    known = 0
    for routes in (plain_routes([overlapping]), plain_routes(ROUTERS)):
        fixed = FixedPaths(routes)
        paths = {route.path.replace("{", "").replace("}", "") for route in routes} | {"/", "/no/such/path"}
        for scope in ({"type": "http", "method": m, "path": p} for p in paths for m in ("GET", "POST", "PUT", "HEAD")):
            match, child = fixed.matches(scope)
            if match is Match.FULL:
                assert child["endpoint"] is first_of(routes, scope), scope
                known += 1
        assert fixed.matches({"type": "http", "method": "GET", "path": "/things/new"})[0] is Match.NONE
    assert known > 50

    async def ask() -> list[str]:
        app = FastAPI()
        app.router.routes.extend((FixedPaths(plain_routes([overlapping])), *plain_routes([overlapping])))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
            return [(await client.get(path)).text for path in ("/things/new", "/things/a")]

    assert asyncio.run(ask()) == ["GET new", "GET a"]


def test_every_command_of_a_caller_is_served_without_fastapi() -> None:
    found = {
        route.path.replace(f"{{{o.id_name}}}", "{id}") for route in plain_routes(ROUTERS) for o in OPERATIONS.values()
    }
    assert {o.path for o in OPERATIONS.values() if o.scope} <= found
