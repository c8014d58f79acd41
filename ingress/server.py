"""Serves one ingress process: granian inside this process, so the pid that was started answers.

Several processes listen on one port (granian sets SO_REUSEPORT): one that dies takes only its own connections
along.
"""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from ingress.app import create_app
from ingress.http.serving import server_of, until_listening
from ingress.state import Ingress

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingress.config import IngressConfig


async def serve(config: IngressConfig, host: str, port: int, started: Callable[[Ingress], None] | None = None) -> None:
    """Serves until SIGTERM or SIGINT, then answers what is open and ends."""
    ingress = Ingress(config)
    await ingress.start()
    server = server_of(create_app(ingress), host, port)

    def stop() -> None:
        # Waits and streams first: granian lets every open request finish.
        ingress.drain()
        server.stop()  # type: ignore[no-untyped-call] # granian leaves it bare

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    serving = loop.create_task(server.serve())
    try:
        await until_listening(serving, port)
        if started is not None:
            started(ingress)
        await serving
    finally:
        await ingress.close()
