"""A cheap HTTP/1.1 client for measuring: one keep-alive connection, requests as bytes, one at a time.

A general client costs more per request than the server that is measured on the same machine. This one knows just what
our ingress sends: Content-Length or chunked bodies, and connections that may be closed after an answer.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast

from msgspec import Struct

from ingress import limits

_HEAD_END: Final = b"\r\n\r\n"
_LINE_END: Final = b"\r\n"


class Answer(Struct, frozen=True):
    """What came back."""

    status: int
    body: bytes


class ConnectionLostError(OSError):
    """The connection ended before the answer did: the same identity may be sent again."""


class Connection(asyncio.Protocol):
    """One connection. ``ask`` may not be called before the earlier answer came."""

    def __init__(self, host: str, port: int) -> None:
        self._where = (host, port)
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._waiter: asyncio.Future[Answer] | None = None

    async def ask(self, request: bytes) -> Answer:
        """The answer to a whole request. Raises ConnectionLostError, or TimeoutError past the client's bound."""
        if self._transport is None or self._transport.is_closing():
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(limits.CLIENT_CONNECT_TIMEOUT_S):
                await loop.create_connection(lambda: self, *self._where)
        if self._transport is None:
            raise ConnectionLostError
        self._received.clear()
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        async with asyncio.timeout(limits.RESULT_WAIT_MAX_S + limits.CLIENT_READ_SLACK_S):
            return await self._waiter

    def close(self) -> None:
        """Ends the connection."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As the protocol demands."""
        self._transport = cast("asyncio.Transport", transport)  # what create_connection gives

    def connection_lost(self, error: Exception | None) -> None:
        """As the protocol demands: whoever waits hears of it."""
        self._transport = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(ConnectionLostError(str(error or "closed")))

    def data_received(self, data: bytes) -> None:
        """As the protocol demands: the answer is given when its last byte is here."""
        self._received += data
        answer = parse_answer(self._received)
        if answer is not None and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(answer)


def parse_answer(received: bytearray) -> Answer | None:
    """The answer that the bytes hold, or None while some are missing."""
    head_end = received.find(_HEAD_END)
    if head_end < 0:
        return None
    head = bytes(received[:head_end]).lower()
    status = int(head[9:12])
    begin = head_end + len(_HEAD_END)
    if b"\r\ntransfer-encoding: chunked" in head:
        body = _chunked(received, begin)
    else:
        length = _content_length(head)
        body = bytes(received[begin : begin + length]) if len(received) >= begin + length else None
    return None if body is None else Answer(status, body)


def _content_length(head: bytes) -> int:
    _, found, rest = head.partition(b"\r\ncontent-length:")
    return int(rest.partition(_LINE_END)[0]) if found else 0


def _chunked(received: bytearray, place: int) -> bytes | None:
    parts: list[bytes] = []
    while True:
        line_end = received.find(_LINE_END, place)
        if line_end < 0:
            return None
        size = int(bytes(received[place:line_end]).partition(b";")[0], 16)
        begin = line_end + len(_LINE_END)
        place = begin + size + len(_LINE_END)
        if len(received) < place:
            return None
        if size == 0:
            return b"".join(parts)
        parts.append(bytes(received[begin : begin + size]))
