"""What is read of a request's body, and what is refused before it is asked for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from starlette.requests import Request

from ingress.http.requests import reading
from schemas import errors

if TYPE_CHECKING:
    from starlette.types import Message

BODY = b'{"amount": 1}'


def body(headers: dict[str, str], *, is_asked_for: bool = True) -> bytes:
    async def receive() -> Message:
        assert is_asked_for
        return {"type": "http.request", "body": BODY, "more_body": False}

    given = {"content-type": "application/json", "content-length": str(len(BODY))} | headers
    raw = [(name.encode(), value.encode()) for name, value in given.items()]
    request = Request({"type": "http", "method": "POST", "path": "/", "headers": raw}, receive)
    return asyncio.run(reading.body(request, reading.JSON, 100))


@pytest.mark.parametrize(
    "headers", [{}, {"content-length": "13, 13"}, {"content-encoding": "identity"}, {"content-encoding": " Identity"}]
)
def test_a_body_is_read_as_it_is(headers: dict[str, str]) -> None:
    assert body(headers) == BODY


def test_what_is_announced_as_too_large_is_not_asked_for() -> None:
    """Who sent ``Expect: 100-continue`` sends no megabytes to hear that they are too many."""
    with pytest.raises(errors.TooLarge):
        body({"content-length": "101"}, is_asked_for=False)


@pytest.mark.parametrize("coding", ["gzip", "br", "identity, gzip", "x"])
def test_a_coded_body_is_refused_by_its_name(coding: str) -> None:
    """Read as it is, it would be told as JSON that is broken."""
    with pytest.raises(errors.UnsupportedMediaType, match="content coding"):
        body({"content-encoding": coding})
