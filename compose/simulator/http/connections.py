"""Losing an answer on purpose: the connection hangs, then breaks without one byte of a reply.

No ASGI server offers that (a handler that returns nothing becomes a 500), so the socket is found among the
process's own descriptors by its peer and shut down. If this sent a status line, it would no longer be a lost
answer but a bad one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import TYPE_CHECKING

from starlette.responses import Response

from compose.simulator import limits

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


class HeldConnections:
    """All connections that wait to be broken; bounded in time and number."""

    def __init__(self, hold_ms: int) -> None:
        self._hold_s = hold_ms / 1_000
        self._held_count = 0
        self._closing = asyncio.Event()

    def close(self) -> None:
        """Breaks every held connection now and any later one at once."""
        self._closing.set()

    async def hold(self, receive: Receive) -> None:
        """Waits until the hold is over, the caller gives up, or the process stops."""
        if self._held_count >= limits.SIMULATOR_HOLDS_MAX:
            return
        self._held_count += 1
        ends = {asyncio.ensure_future(_disconnected(receive)), asyncio.ensure_future(self._closing.wait())}
        try:
            await asyncio.wait(ends, timeout=self._hold_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._held_count -= 1
            for end in ends:
                end.cancel()


class LostAnswer(Response):
    """No answer: holds the connection, then breaks it."""

    def __init__(self, held: HeldConnections) -> None:
        super().__init__()
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - never sends
        """Ends without a byte sent, at the latest when the hold is over."""
        await self._held.hold(receive)
        host, port = scope["client"]
        connection_break((host, int(port)))


def connection_break(peer: tuple[str, int]) -> None:
    """Shuts down this process's connection to ``peer``; does nothing when there is none any more."""
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - descriptors, not files: bare names are wanted
        # A descriptor may close meanwhile or be no socket at all: then it is not the one looked for.
        with contextlib.suppress(OSError), _socket_of(int(name)) as connection:
            if connection.getpeername()[:2] == peer:
                connection.shutdown(socket.SHUT_RDWR)
                return


def _socket_of(descriptor: int) -> socket.socket:
    """A second handle on a socket, the caller's to close; OSError when the descriptor is no socket."""
    duplicate = os.dup(descriptor)
    try:
        return socket.socket(fileno=duplicate)
    except OSError:
        os.close(duplicate)  # nobody else knows it: left open, each lost answer would double what is open
        raise


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
