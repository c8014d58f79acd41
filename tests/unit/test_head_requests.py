"""A HEAD is answered as GET is, without the content; what would never end does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from starlette.responses import Response, StreamingResponse

from ingress.http.requests.head_requests import HeadAsGet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Message, Receive, Scope, Send


def answered(application: Any, method: str) -> list[Message]:
    sent: list[Message] = []

    async def receive() -> Message:
        assert method != "HEAD", "its body is nobody's business"
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "asgi": {"spec_version": "2.3"}}
    asyncio.run(asyncio.wait_for(HeadAsGet(application)(scope, receive, send), 20))
    return sent


async def plain(scope: Scope, receive: Receive, send: Send) -> None:
    assert scope["method"] == "GET"
    await Response(b"whole", 200, {"ETag": "1"})(scope, receive, send)


def test_status_and_fields_are_those_of_get_and_there_is_no_content() -> None:
    get, head = answered(plain, "GET"), answered(plain, "HEAD")
    assert head[0] == get[0]
    assert (b"content-length", b"5") in head[0]["headers"]
    assert [message["body"] for message in get[1:]] == [b"whole"]
    assert [(message["body"], message["more_body"]) for message in head[1:]] == [(b"", False)]


def test_other_methods_are_passed_on_as_they_are() -> None:
    seen: list[str] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["method"])
        await Response(b"")(scope, receive, send)

    for method in ("POST", "DELETE", "OPTIONS"):
        answered(application, method)
    assert seen == ["POST", "DELETE", "OPTIONS"]


@pytest.mark.parametrize("says_something", [True, False])
def test_a_stream_ends_with_its_head_and_gives_back_what_it_holds(says_something: bool) -> None:
    held = [True]

    async def frames() -> AsyncIterator[bytes]:
        try:
            if says_something:
                yield b"one"
            await asyncio.Event().wait()
            yield b"never"
        finally:
            held.clear()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await StreamingResponse(frames())(scope, receive, send)

    sent = answered(application, "HEAD")
    assert [message.get("body") for message in sent] == [None, b""]
    assert not held
