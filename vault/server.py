"""Serves one vault process: granian inside this process, as the ingress does, without any access log.

Several processes listen on one port (SO_REUSEPORT); one that dies takes only its own connections along.
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

from ingress import limits as ingress_limits
from vault import limits as vault_limits
from vault.app import create_app
from vault.state import Vault

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from vault.state import VaultConfig

    WhyNotReady = Callable[[], Coroutine[None, None, str | None]]


async def serve(config: VaultConfig, host: str, port: int, started: Callable[[WhyNotReady], None]) -> None:
    """Serves until SIGTERM or SIGINT, then answers what is open and ends. Raises as ``Vault.start``.

    ``started`` hears at once whom to ask whether calls can be served. Nothing listens before the keys are there: the
    address is shared, and the kernel would give us connections that another vault could answer.
    """
    vault, loop = Vault(config), asyncio.get_running_loop()
    told_to_end, listening = asyncio.Event(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told_to_end.set)

    async def why_not_ready() -> str | None:
        return await vault.why_not_ready() or (None if listening.is_set() else "does not listen yet")

    started(why_not_ready)
    ending, starting = loop.create_task(told_to_end.wait()), loop.create_task(vault.start())
    try:
        await asyncio.wait((ending, starting), return_when=asyncio.FIRST_COMPLETED)
        if ending.done():
            return
        starting.result()
        server = Server(
            create_app(vault),
            address=host,
            port=port,
            interface=Interfaces.ASGINL,
            http=HTTPModes.http1,  # one connection is one request at a time: nobody gets thousands by one of HTTP/2
            http1_settings=HTTP1Settings(header_read_timeout=ingress_limits.HEADERS_READ_TIMEOUT_MS),
            websockets=False,
            log_level=LogLevels.error,
            log_access=False,
            backlog=vault_limits.VAULT_CONNECTIONS_MAX,
            backpressure=vault_limits.VAULT_CONNECTIONS_MAX,
        )
        serving = loop.create_task(server.serve())
        ending.add_done_callback(lambda _: server.stop())  # type: ignore[no-untyped-call] # granian leaves it bare
        while not serving.done() and not _listens(port):  # noqa: ASYNC110 - granian gives no event for it
            await asyncio.sleep(ingress_limits.LISTEN_POLL_INTERVAL_S)
        listening.set()
        await serving
    finally:
        starting.cancel()
        await asyncio.wait((starting,))
        await vault.close()


def _listens(port: int) -> bool:
    """True once this very process accepts on the port: a connection could be answered by another one."""
    found = psutil.Process().net_connections(kind="tcp")
    return any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in found)
