"""Every answer names its request."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ingress.http.requests import request_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

Headers = list[tuple[bytes, bytes]]


def answered(given: Sequence[tuple[bytes, bytes]], own: Headers) -> tuple[Headers, str | None]:
    """The headers of an answer that had these of its own, and the id that its maker saw."""
    sent: list[Any] = []
    seen: list[str | None] = []

    async def app(scope: Any, _: Any, send: Any) -> None:
        seen.append(request_ids.of(scope))
        await send({"type": "http.response.start", "status": 200, "headers": own})
        await send({"type": "http.response.body", "body": b""})

    async def collect(message: Any) -> None:
        sent.append(message)

    async def nothing() -> Any:
        return {}

    scope = {"type": "http", "headers": list(given)}
    asyncio.run(request_ids.NamedRequests(app)(scope, nothing, collect))
    return sent[0]["headers"], seen[0]


def test_a_new_id_for_each_request_that_brings_none() -> None:
    (first, name), (second, _) = answered([], []), answered([], [])
    assert first == [(b"x-request-id", (name or "").encode())]
    assert first != second


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([(b"X-Request-Id", b"r-1")], True),
        ([(b"x-request-id", b"")], False),
        ([(b"x-request-id", b"a b")], False),
        ([(b"x-request-id", b"r\xe9")], False),
        ([(b"x-request-id", b"x" * 1_000)], False),
        ([(b"x-request-id", b"4242424242424242")], False),
        ([(b"x-request-id", b"r-1"), (b"x-request-id", b"r-1")], False),
    ],
)
def test_the_callers_id_is_kept_when_it_is_one(given: Headers, kept: bool) -> None:
    headers, seen = answered(given, [])
    assert (headers[0][1] == given[0][1]) is kept
    assert (seen or "").encode() == headers[0][1]


def test_an_answer_that_names_its_request_keeps_that_name() -> None:
    own = [(b"X-Request-Id", b"of-the-envelope")]
    assert answered([(b"x-request-id", b"r-1")], own)[0] == own
