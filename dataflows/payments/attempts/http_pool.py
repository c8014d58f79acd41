"""Kept-alive connections to one processor. The caller's bulkhead bounds how many are open at once."""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from dataflows.payments.attempts.http_connection import (
    HttpAnswer,
    HttpConnection,
    HttpRequest,
    NotConnectedError,
)
from schemas.payments import limits

if TYPE_CHECKING:
    from collections.abc import Callable

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class HttpPool:
    """Requests to one origin, each over a connection of its own while it lasts."""

    def __init__(self, base_url: str) -> None:
        """Raises ValueError when the URL is not http(s)://host[:port][/prefix]."""
        parts = urlsplit(base_url)
        if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
            raise ValueError(f"{base_url!r} is not an http or https address; correct the processor's URL")
        self._host = parts.hostname
        self._port = parts.port or _DEFAULT_PORTS[parts.scheme]
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._prefix = parts.path.rstrip("/")
        self._host_header = ("Host", parts.netloc.rpartition("@")[2])
        self._idle: list[HttpConnection] = []

    async def request(
        self,
        method: str,
        path: str,
        headers: list[tuple[str, str]],
        body: bytes = b"",
        on_written: Callable[[], None] | None = None,
    ) -> HttpAnswer:
        """The complete answer. Raises NotConnectedError (nothing written) or NoAnswerError (it may have arrived)."""
        request = HttpRequest(
            method=method, target=self._prefix + path, headers=[self._host_header, *headers], body=body
        )
        connection = self._idle_connection() or await self._connected()
        answer = await connection.exchange(request, on_written)
        if connection.is_open:
            connection.idle_since = time.monotonic()
            self._idle.append(connection)
        return answer

    def close(self) -> None:
        """Closes every idle connection."""
        while self._idle:
            self._idle.pop().close()

    def _idle_connection(self) -> HttpConnection | None:
        oldest = time.monotonic() - limits.ATTEMPT_CONNECTION_IDLE_S
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and connection.idle_since >= oldest:
                return connection
            connection.close()
        return None

    async def _connected(self) -> HttpConnection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(limits.ATTEMPT_CONNECT_TIMEOUT_MS / 1_000):
                _, connection = await loop.create_connection(HttpConnection, self._host, self._port, ssl=self._tls)
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            raise NotConnectedError(type(error).__name__) from error
        return connection
