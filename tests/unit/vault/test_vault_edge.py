"""Whatever breaks inside the vault, no log line and no answer quotes what was sent."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from starlette.datastructures import Headers

from schemas import errors
from tests.each import each
from vault.app import Edge, create_app
from vault.token_request import read_request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

NUMBER = "4242424242424242"
AUDIT = SimpleNamespace(suspicious=None)


def answered(app: ASGIApp) -> httpx.Response:
    async def call() -> httpx.Response:
        transport = httpx.ASGITransport(Edge(app))
        async with httpx.AsyncClient(transport=transport, base_url="http://vault") as client:
            return await client.post("/", content=NUMBER)

    return asyncio.run(call())


async def breaks(_: Scope, __: Receive, ___: Send) -> None:
    card_number = NUMBER
    raise ValueError(f"invalid literal: {card_number!r}")


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """What any library writes, at every level."""
    heard, root = io.StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(heard), root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield heard
    root.setLevel(level)
    root.removeHandler(handler)


def test_a_bug_is_told_by_its_place_alone(capfd: pytest.CaptureFixture[str], logged: io.StringIO) -> None:
    answer = answered(breaks)
    assert logged.getvalue(), "asyncio says at least which selector it uses"
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    out, err = capfd.readouterr()
    assert "ValueError" in out + err
    assert "test_vault_edge.py" in out + err
    assert NUMBER not in out + err + logged.getvalue() + answer.text


@pytest.mark.parametrize("path", ["/v1/tokens", "/v1/tokens/tok_1", "/v1/forward", "/healthz"])
def test_a_query_value_that_would_be_ignored_is_refused(path: str) -> None:
    """Before anybody is asked who calls; and it is not repeated."""
    vault: Any = SimpleNamespace(holder=holder, trusted_proxies=(), authenticator=None, audit=AUDIT)

    async def call() -> list[httpx.Response]:
        transport = httpx.ASGITransport(create_app(vault))
        async with httpx.AsyncClient(transport=transport, base_url="http://vault") as client:
            method = "POST" if path in {"/v1/tokens", "/v1/forward"} else "GET"
            return [await client.request(method, f"{path}?expand={NUMBER}"), await client.get("/healthz")]

    refused, alive = asyncio.run(call())
    assert (refused.status_code, refused.json()["code"]) == (400, "malformed_request")
    assert NUMBER not in refused.text
    assert alive.status_code == 200


@each("path", ["/v1/tokens", "/v1/tokens/tok_1", "/v1/forward", "/v1/none"])
@each("name", ["X-Tenant", "x-tenant-id"])
def test_a_tenant_is_named_by_the_token_alone(path: str, name: str) -> None:
    """Of whoever calls, and of a route that is not there: before anything is looked at, and it is not repeated."""
    vault: Any = SimpleNamespace(holder=holder, trusted_proxies=(), authenticator=None, audit=AUDIT)

    async def call() -> httpx.Response:
        transport = httpx.ASGITransport(create_app(vault))
        async with httpx.AsyncClient(transport=transport, base_url="http://vault") as client:
            return await client.get(path, headers={name: NUMBER})

    refused = asyncio.run(call())
    assert (refused.status_code, refused.json()["code"]) == (400, "malformed_request")
    assert NUMBER not in refused.text


@pytest.mark.parametrize("name", ["tenant", "tenant_id", "tenantid"])
def test_a_card_says_no_tenant(name: str) -> None:
    body = json.dumps({"idempotency_key": "k", "payload": {"number": NUMBER, name: "tn_1"}}).encode()
    with pytest.raises(errors.MalformedRequest, match="only from the token"):
        read_request(body, Headers())


async def holder(_: object) -> str:
    raise errors.Unauthenticated


def test_an_answer_that_had_begun_is_not_begun_again() -> None:
    async def breaks_late(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await breaks(scope, receive, send)

    sent: list[Message] = []

    async def call() -> None:
        async def receive() -> Message:
            return {"type": "http.request"}

        async def send(message: Message) -> None:
            sent.append(message)

        await Edge(breaks_late)({"type": "http", "headers": []}, receive, send)

    asyncio.run(call())
    assert [message["type"] for message in sent] == ["http.response.start"]
