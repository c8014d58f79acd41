"""Serves one process of the media origin: granian inside this process, so the pid that was started answers."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import psutil
from granian.constants import Interfaces
from granian.log import LogLevels
from granian.server.embed import Server

from ingress import limits as ingress_limits
from ingress.social.media.origin_app import create_app
from schemas.social import limits as social_limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingress.social.media.origin import Origin


async def serve(origin: Origin, host: str, port: int, started: Callable[[], object]) -> None:
    """Serves until SIGTERM or SIGINT, then answers what is open and ends."""
    await origin.start()
    server = Server(
        create_app(origin),
        address=host,
        port=port,
        interface=Interfaces.ASGINL,
        websockets=False,
        log_level=LogLevels.error,
        log_access=False,
        backlog=social_limits.MEDIA_CONNECTIONS_MAX,
        backpressure=social_limits.MEDIA_CONNECTIONS_MAX,
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    serving = loop.create_task(server.serve())
    try:
        while not serving.done() and not _listens(port):  # noqa: ASYNC110 - granian gives no event for it
            await asyncio.sleep(ingress_limits.LISTEN_POLL_INTERVAL_S)
        started()
        await serving
    finally:
        await origin.close()


def _listens(port: int) -> bool:
    """True once this very process accepts on the port: a connection could be answered by another one."""
    found = psutil.Process().net_connections(kind="tcp")
    return any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in found)
