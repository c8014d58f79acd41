"""The HTTP connections of the adapters against a peer that breaks the protocol in every way, over real sockets."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from dataflows.payments.attempts import http_connection
from dataflows.payments.attempts.http_connection import HttpAnswer, NoAnswerError, NotConnectedError
from dataflows.payments.attempts.http_pool import HttpPool
from schemas.payments import limits
from tests.worlds.payments.attempts_world import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Peer:
    """Reads a request, writes fixed bytes, and closes or keeps the connection."""

    def __init__(self, answer: bytes, *, keeps: bool = True) -> None:
        self.answer = answer
        self.keeps = keeps
        self.connections = 0
        self.requests: list[bytes] = []
        self.tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.tasks.add(asyncio.current_task())
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
                self.requests.append(head + await reader.readexactly(int(length.split(b":")[1])))
                writer.write(self.answer)
                await writer.drain()
                if not self.keeps:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


@asynccontextmanager
async def pool_to(peer: Peer) -> AsyncIterator[HttpPool]:
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    pool = HttpPool(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/prefix/")
    try:
        yield pool
    finally:
        pool.close()
        await asyncio.gather(*peer.tasks)
        server.close()
        await server.wait_closed()


async def ask(peer: Peer, times: int = 1) -> HttpAnswer:
    async with pool_to(peer) as pool:
        for _ in range(times - 1):
            await pool.request("POST", "/v1/operations", [("Idempotency-Key", "op_1")], b"{}")
        return await pool.request("POST", "/v1/operations", [("Idempotency-Key", "op_1")], b"{}")


@pytest.mark.parametrize(
    "answer",
    [
        OK,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
    ],
)
def test_a_connection_is_kept_and_used_again(answer: bytes) -> None:
    """One connection for many calls, in every framing."""
    peer = Peer(answer)
    assert asyncio.run(ask(peer, times=5)) == HttpAnswer(200, b"ok")
    assert (peer.connections, len(peer.requests)) == (1, 5)
    assert peer.requests[0].startswith(b"POST /prefix/v1/operations HTTP/1.1\r\n")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\n\r\nok",  # ends with the connection
        b"HTTP/1.0 200 OK\r\n\r\nok",
    ],
)
def test_a_connection_that_closes_is_not_used_again(answer: bytes) -> None:
    """Each call then has a connection of its own, and a whole answer."""
    peer = Peer(answer, keeps=False)
    assert asyncio.run(ask(peer, times=3)) == HttpAnswer(200, b"ok")
    assert peer.connections == 3


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"", "connection_lost"),
        (b"HTTP/1.1 200 OK\r\ncontent-le", "connection_lost"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok", "connection_lost"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nok", "connection_lost"),
        (b"SSH-2.0-nobody\r\n\r\n", "not_http"),
        (b"HTTP/1.1 abc OK\r\n\r\n", "not_http"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok", "not_http"),
        (
            b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (limits.ATTEMPT_ANSWER_BYTES_MAX + 1),
            "answer_too_large",
        ),
        (b"HTTP/1.1 200 OK\r\nx: " + b"x" * (limits.ATTEMPT_ANSWER_BYTES_MAX + 1), "not_http"),
    ],
)
def test_half_an_answer_is_none(answer: bytes, code: str) -> None:
    """The request was written, so the caller must call it unknown."""
    with pytest.raises(NoAnswerError, match=f"^{code}$"):
        asyncio.run(ask(Peer(answer, keeps=False)))


def test_silence_ends_in_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound on every call; the connection is not used again, its answer would be another call's."""
    monkeypatch.setattr(http_connection.limits, "ATTEMPT_CALL_TIMEOUT_MS", 500)  # time enough for the peer to accept
    peer = Peer(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok")

    async def twice() -> None:
        async with pool_to(peer) as pool:
            for _ in range(2):
                with pytest.raises(NoAnswerError, match=r"^timeout$"):
                    await pool.request("GET", "/", [])

    asyncio.run(twice())
    assert peer.connections == 2


def test_an_answer_that_nobody_asked_for_closes_the_connection() -> None:
    """Two answers to one request: the second must never be taken for that of the next request."""
    peer = Peer(OK + b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nother")

    async def twice() -> list[HttpAnswer]:
        async with pool_to(peer) as pool:
            return [await pool.request("GET", "/", []) for _ in range(2)]

    assert asyncio.run(twice()) == [HttpAnswer(200, b"ok")] * 2
    assert peer.connections == 2


def test_nobody_listens() -> None:
    """Refused before a byte was written: this, and only this, is proved not sent."""
    pool = HttpPool(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(NotConnectedError):
        asyncio.run(pool.request("POST", "/", [], b"{}"))


@pytest.mark.parametrize("url", ["127.0.0.1:80", "ftp://processor", "http://", ""])
def test_a_wrong_address_is_refused_at_once(url: str) -> None:
    """One line that says what to do."""
    with pytest.raises(ValueError, match="correct the processor's URL"):
        HttpPool(url)
