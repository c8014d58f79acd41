"""A body that does not come is not waited for without end; one that was read is nobody's business any more."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ingress import limits
from ingress.http.requests.whole_requests import WholeRequests
from schemas import errors

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

PART = {"type": "http.request", "body": b"x" * 10, "more_body": True}
END = {"type": "http.request", "body": b"", "more_body": False}
HEADERS = [(b"content-length", b"1000")]


def answered(
    parts: list[dict[str, Any]],
    read: int,
    headers: list[tuple[bytes, bytes]] = HEADERS,
    version: str = "1.1",
) -> tuple[list[Message], int]:
    """What is sent for a request of which the application reads some parts; and how many parts were left unread."""
    left = list(parts)
    sent: list[Message] = []

    async def receive() -> Message:
        if left:
            return left.pop(0)
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    async def application(_: Scope, receive: Receive, send: Send) -> None:
        for _ in range(read):
            await receive()
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b"no"})

    scope = {"type": "http", "headers": headers, "http_version": version}
    asyncio.run(asyncio.wait_for(WholeRequests(application)(scope, receive, send), 20))
    return sent, len(left)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BODY_DRAIN_S", 0.05)
    monkeypatch.setattr(limits, "BODY_READ_S", 0.05)


@pytest.mark.parametrize("read", [0, 1, 3])
def test_the_rest_is_dropped_before_the_answer(read: int) -> None:
    sent, left = answered([PART, PART, END], read)
    assert left == 0
    assert sent[0]["headers"] == []


def test_a_rest_that_does_not_come_ends_the_connection() -> None:
    sent, _ = answered([PART], 0)
    assert sent[0]["headers"] == [(b"connection", b"close")]
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]


def test_a_rest_that_does_not_end_is_read_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BODY_DRAIN_BYTES_MAX", 35)
    sent, left = answered([PART] * 10, 1)
    assert left == 6
    assert sent[0]["headers"] == [(b"connection", b"close")]


def test_http_2_knows_no_connection_field() -> None:
    sent, _ = answered([PART], 0, version="2")
    assert sent[0]["headers"] == []


@pytest.mark.parametrize("headers", [[], [(b"content-length", b"0")]])
def test_without_a_body_nothing_is_read(headers: list[tuple[bytes, bytes]]) -> None:
    sent, left = answered([PART], 0, headers)
    assert left == 1
    assert sent[0]["headers"] == []


def test_a_body_that_does_not_come_is_refused() -> None:
    with pytest.raises(errors.RequestTimeout):
        answered([PART], 2)


@pytest.mark.parametrize(("pace_bytes_s", "is_waited_for"), [(None, False), (1, True)])
def test_a_long_body_may_take_as_long_as_it_comes_at_the_pace(
    monkeypatch: pytest.MonkeyPatch, pace_bytes_s: int | None, is_waited_for: bool
) -> None:
    monkeypatch.setattr(limits, "BODY_READ_S", 0.0)
    parts = [PART, PART, END]

    async def receive() -> Message:
        if len(parts) < 3:
            for _ in range(3):  # not there yet
                await asyncio.sleep(0)
        return parts.pop(0)

    async def application(_: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["more_body"]:
            pass

    async def send(_: Message) -> None:
        raise AssertionError

    def asked() -> None:
        scope = {"type": "http", "headers": HEADERS, "http_version": "1.1"}
        asyncio.run(WholeRequests(application, pace_bytes_s)(scope, receive, send))

    if is_waited_for:
        asked()
        assert parts == []
    else:
        with pytest.raises(errors.RequestTimeout):
            asked()
