"""One simulator process: one loop, one book, one port; SIGTERM and SIGINT drain it, SIGKILL loses nothing.

Granian runs inside this process, not in a child: the pid that was started holds both book and port.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from typing import TYPE_CHECKING, Final

from granian.constants import Interfaces
from granian.log import LogLevels
from granian.server.embed import Server

from compose.simulator import errors, limits
from compose.simulator.book.book import Book
from compose.simulator.http.app import Processor, make_app

if TYPE_CHECKING:
    from compose.simulator.http.app import SimulatorConfig

LOOPBACK: Final = "127.0.0.1"


def serve_forever(config: SimulatorConfig, port: int) -> None:
    """Serves until SIGTERM or SIGINT. Raises errors.SimulatorError when it cannot start."""
    _claim_port(port)
    asyncio.run(_serve(config, port))


def _claim_port(port: int) -> None:
    # Granian listens with SO_REUSEPORT: without this look a second simulator would silently share the port,
    # and half of the requests would land in another book.
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except (OSError, OverflowError) as error:
            raise errors.PortTaken(
                f"cannot listen on {LOOPBACK}:{port}: {error}; stop its owner or choose another port"
            ) from error


async def _serve(config: SimulatorConfig, port: int) -> None:
    processor = Processor(config, Book(config.folder, tells=config.receiver is not None))
    try:
        server = Server(
            make_app(processor),
            address=LOOPBACK,
            port=port,
            interface=Interfaces.ASGINL,
            websockets=False,
            log_level=LogLevels.error,
            backlog=limits.SIMULATOR_CONNECTIONS_MAX,
            backpressure=limits.SIMULATOR_CONNECTIONS_MAX,
        )

        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopped.set)
        serving, stopping = asyncio.create_task(server.serve()), asyncio.create_task(stopped.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        # Held connections first: granian waits for every request that is under way.
        processor.held.close()
        server.stop()  # type: ignore[no-untyped-call] # granian leaves it bare
        # Bounded, as a caller may never finish its body; what it sent by then has no effect.
        await asyncio.wait({serving}, timeout=limits.SIMULATOR_DRAIN_TIMEOUT_S)
    finally:
        await processor.close()
