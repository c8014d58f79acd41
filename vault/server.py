"""Serves one vault process: granian inside this process, as the ingress does, without any access log.

Several processes listen on one port (SO_REUSEPORT); one that dies takes only its own connections along.
"""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import psutil
from granian.constants import Interfaces
from granian.log import LogLevels
from granian.server.embed import Server

from schemas import limits
from vault.app import create_app
from vault.state import Vault

if TYPE_CHECKING:
    from collections.abc import Callable

    from vault.state import VaultConfig


async def serve(config: VaultConfig, host: str, port: int, started: Callable[[Vault], None] | None = None) -> None:
    """Serves until SIGTERM or SIGINT, then answers what is open and ends. Raises as ``Vault.start``."""
    vault = Vault(config)
    try:
        await vault.start()
        server = Server(
            create_app(vault),
            address=host,
            port=port,
            interface=Interfaces.ASGINL,
            websockets=False,
            log_level=LogLevels.error,
            log_access=False,
            backlog=limits.VAULT_CONNECTIONS_MAX,
            backpressure=limits.VAULT_CONNECTIONS_MAX,
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.stop)
        serving = loop.create_task(server.serve())
        while not serving.done() and not _listens(port):  # noqa: ASYNC110 - granian gives no event for it
            await asyncio.sleep(limits.LISTEN_POLL_INTERVAL_S)
        if started is not None:
            started(vault)
        await serving
    finally:
        await vault.close()


def _listens(port: int) -> bool:
    """True once this very process accepts on the port: a connection could be answered by another one."""
    found = psutil.Process().net_connections(kind="tcp")
    return any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in found)
