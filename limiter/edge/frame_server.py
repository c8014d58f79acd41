"""Serves CHECK frames on sockets of this host.

Whoever may open the socket may spend any quota: a Unix socket is its owner's alone, TCP is for loopback.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from limiter.edge.frame_connection import FrameConnection
from limiter.edge.frame_room import FrameRoom
from schemas.limiter import limits

if TYPE_CHECKING:
    from pathlib import Path

    from limiter.decide.limiter import Limiter

_PRIVATE: Final = 0o600


class FrameServer:
    """Every socket of one gateway."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter
        self._servers: list[asyncio.Server] = []
        self._sockets: list[Path] = []
        self._room = FrameRoom()
        self.connections: set[FrameConnection] = set()
        limiter.when_keys_are_void.add(self._void_keys)

    async def serve_unix(self, path: Path) -> None:
        """Listens on a socket that only this user may open. Raises OSError; a path may be too long for a socket."""
        path.unlink(missing_ok=True)  # noqa: ASYNC240 - once, at the start
        server = await asyncio.get_running_loop().create_unix_server(self._connection, path, start_serving=False)
        path.chmod(_PRIVATE)  # noqa: ASYNC240
        await server.start_serving()
        self._servers.append(server)
        self._sockets.append(path)

    async def serve_tcp(self, host: str, port: int) -> int:
        """Listens on a port, and gives its number. Raises OSError."""
        server = await asyncio.get_running_loop().create_server(self._connection, host, port)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    def _void_keys(self) -> None:
        for connection in self.connections:
            connection.void_keys()

    def _connection(self) -> FrameConnection:
        return FrameConnection(self._limiter, self.connections, self._room)

    async def close(self) -> None:
        """Takes no more; what is under way is answered, within the bound of a decision."""
        self._limiter.when_keys_are_void.discard(self._void_keys)
        for server in self._servers:
            server.close()
        for connection in self.connections:
            connection.drain()
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * limits.LIMIT_STORE_TIMEOUT_S):
                await asyncio.gather(*(task for c in self.connections for task in c.under_way), return_exceptions=True)
        for connection in list(self.connections):
            connection.end()
        for path in self._sockets:
            path.unlink(missing_ok=True)
