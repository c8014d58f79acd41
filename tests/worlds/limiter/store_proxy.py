"""What lies between a gateway and its store in tests: replies that are lost, late, or by a clock that is wrong."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_TIME = re.compile(rb"\*2\r\n\$10\r\n(\d{10})\r\n")  # how an answer to TIME begins


class StoreProxy:
    """Between a gateway and the store, which does what it is told whatever happens to its answers.

    While ``dropping`` nobody hears of them, and the connection ends; while ``delivering`` is clear they wait.
    """

    def __init__(self, server_url: str) -> None:
        before, _, place = server_url.rpartition("@")
        self._place, _, self._database = place.partition("/")
        self._before = before
        self.dropping = False
        self.dropped = 0
        self.waiting = 0
        self.clock_ahead_s = 0  # what TIME says
        self.delivering = asyncio.Event()
        self.delivering.set()

    @asynccontextmanager
    async def url(self) -> AsyncIterator[str]:
        """The store's address through the proxy."""
        lines: set[asyncio.Task[None] | None] = set()

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            lines.add(asyncio.current_task())
            host, _, port = self._place.partition(":")
            answers, store = await asyncio.open_connection(host, int(port))
            asked = asyncio.create_task(self._handed_on(reader, store))
            with suppress(OSError):
                while (data := await answers.read(65_536)) and not self._drops():
                    self.waiting += not self.delivering.is_set()
                    await self.delivering.wait()
                    writer.write(_TIME.sub(self._told, data))
            for end in (writer, store):
                end.close()
            await asyncio.gather(asked, writer.wait_closed(), store.wait_closed(), return_exceptions=True)

        listening = await asyncio.start_server(accepted, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        try:
            yield f"{self._before}@127.0.0.1:{port}/{self._database}"
        finally:
            listening.close()
            await asyncio.gather(*(line for line in lines if line))

    def _drops(self) -> bool:
        self.dropped += self.dropping
        return self.dropping

    def _told(self, said: re.Match[bytes]) -> bytes:
        return b"*2\r\n$10\r\n%d\r\n" % (int(said[1]) + self.clock_ahead_s)

    @staticmethod
    async def _handed_on(reader: asyncio.StreamReader, store: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                store.write(data)
        store.close()
