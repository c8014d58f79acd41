"""A door stays open while thousands of connections say nothing, and files are there for them."""

from __future__ import annotations

import asyncio
import resource
import socket
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import pytest

from ingress import limits
from ingress.http.serving import connections_max, server_of, until_listening
from vault import limits as vault_limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope, Send

_SLOTS = limits.REQUESTS_OF_CALLERS_MAX + limits.REQUESTS_OF_STRANGERS_MAX
_SILENT = 2_100  # more than granian took at once when that was the number of requests under way
_UNFINISHED = b"POST / HTTP/1.1\r\nHost: api\r\n"


async def answers(scope: Scope, _: Receive, send: Send) -> None:
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def beside_a_server(then: Callable[[int], None]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    server = server_of(answers, "127.0.0.1", port)
    serving = asyncio.create_task(server.serve())
    try:
        await until_listening(serving, port)
        await asyncio.to_thread(then, port)
    finally:
        server.stop()  # type: ignore[no-untyped-call] # granian leaves it bare
        await serving


def line(port: int, begun: bytes) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=60)
    made.sendall(begun)
    return made


def test_connections_that_say_nothing_shut_no_door(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are held far longer than the test may take: what is asked after them is answered beside them."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < _SILENT * 3:
        pytest.skip("so many files are not allowed here")
    monkeypatch.setattr(limits, "HEADERS_READ_TIMEOUT_MS", 3_600_000)

    def flood(port: int) -> None:
        with ExitStack() as held:
            for number in range(_SILENT):
                held.enter_context(line(port, _UNFINISHED if number % 2 else b""))
            asking = held.enter_context(line(port, _UNFINISHED + b"Content-Length: 0\r\n\r\n"))
            assert asking.recv(12) == b"HTTP/1.1 204"

    asyncio.run(beside_a_server(flood))


@pytest.mark.parametrize("begun", [b"", _UNFINISHED])
def test_one_that_says_nothing_is_cut(begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HEADERS_READ_TIMEOUT_MS", 100)

    def silent(port: int) -> None:
        with line(port, begun) as made, suppress(ConnectionError):
            assert b"204" not in made.recv(1_024)

    asyncio.run(beside_a_server(silent))


def test_more_are_held_than_answered() -> None:
    assert limits.CONNECTIONS_MAX > 10 * _SLOTS
    assert limits.REQUESTS_OF_CALLERS_MAX > vault_limits.VAULT_REQUESTS_OF_CALLERS_MAX


@pytest.mark.parametrize(
    ("soft", "hard", "held", "raised"),
    [
        (1_024, 1_000_000, 65_536, 66_048),
        (1_024, resource.RLIM_INFINITY, 65_536, 66_048),
        (1_024, 20_000, 19_488, 20_000),
        (1_000_000, 1_000_000, 65_536, None),
        (600, 600, 300, None),
    ],
)
def test_as_many_as_files_allow(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, held: int, raised: int | None
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: asked.append(limit[0]))
    assert connections_max() == held
    assert asked == ([] if raised is None else [raised])


def test_a_system_that_refuses_leaves_what_there_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int, __: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1_024, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert connections_max() == 512
