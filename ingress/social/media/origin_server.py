"""Serves one process of the media origin: granian inside this process, so the pid that was started answers."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Final

from ingress.http.serving import server_of, until_listening
from ingress.social.media.origin_app import create_app

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingress.social.media.origin import Origin

_FILES_OF_CONNECTION: Final = 2  # a rendition is read while it is sent


async def serve(origin: Origin, host: str, port: int, started: Callable[[], object]) -> None:
    """Serves until SIGTERM or SIGINT, then answers what is open and ends."""
    await origin.start()
    server = server_of(create_app(origin), host, port, _FILES_OF_CONNECTION)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    serving = loop.create_task(server.serve())
    try:
        await until_listening(serving, port)
        started()
        await serving
    finally:
        await origin.close()
