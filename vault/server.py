"""Serves one vault process: granian inside this process, as the ingress does, without any access log.

Several processes listen on one port (SO_REUSEPORT); one that dies takes only its own connections along.
"""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from ingress.http.serving import server_of, until_listening
from sinks import cancelled
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
        server = server_of(create_app(vault), host, port)
        serving = loop.create_task(server.serve())
        ending.add_done_callback(lambda _: server.stop())  # type: ignore[no-untyped-call] # granian leaves it bare
        await until_listening(serving, port)
        listening.set()
        await serving
    finally:
        await cancelled.over(starting)
        await vault.close()
