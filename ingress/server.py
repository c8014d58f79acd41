"""Serves one ingress process: granian inside this process, so the pid that was started answers.

Several processes listen on one port (granian sets SO_REUSEPORT): one that dies takes only its own connections
along.
"""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import psutil
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.embed import Server

from ingress import limits
from ingress.app import create_app
from ingress.state import Ingress

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingress.config import IngressConfig


async def serve(config: IngressConfig, host: str, port: int, started: Callable[[Ingress], None] | None = None) -> None:
    """Serves until SIGTERM or SIGINT, then answers what is open and ends."""
    ingress = Ingress(config)
    await ingress.start()
    server = Server(
        create_app(ingress),
        address=host,
        port=port,
        interface=Interfaces.ASGINL,
        http=HTTPModes.http1,  # one connection is one request at a time: nobody gets thousands by one of HTTP/2
        http1_settings=HTTP1Settings(header_read_timeout=limits.HEADERS_READ_TIMEOUT_MS),
        websockets=False,
        log_level=LogLevels.error,
        backlog=limits.INGRESS_CONNECTIONS_MAX,
        backpressure=limits.INGRESS_CONNECTIONS_MAX,
    )

    def stop() -> None:
        # Waits and streams first: granian lets every open request finish.
        ingress.drain()
        server.stop()  # type: ignore[no-untyped-call] # granian leaves it bare

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    serving = loop.create_task(server.serve())
    try:
        while not serving.done() and not _listens(port):  # noqa: ASYNC110 - granian gives no event for it
            await asyncio.sleep(limits.LISTEN_POLL_INTERVAL_S)
        if started is not None:
            started(ingress)
        await serving
    finally:
        await ingress.close()


def _listens(port: int) -> bool:
    """True once this very process accepts on the port: a connection could be answered by another one."""
    found = psutil.Process().net_connections(kind="tcp")
    return any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in found)
