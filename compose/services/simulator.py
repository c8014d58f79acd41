"""Wires one processor simulator's process: its folder, its port, and where its webhooks go, nothing else of ours.

The simulator is an outside system. It knows one address of the platform, the one that any processor is given; if it
could ask us anything, it would no longer be a witness.
"""

from __future__ import annotations

import http.client
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from compose.services.ops import serve_ops
from compose.simulator import limits
from compose.simulator.errors import SimulatorError
from compose.simulator.http.app import SimulatorConfig
from compose.simulator.http.server import LOOPBACK, serve_forever
from compose.simulator.webhooks import Receiver
from compose.stack.errors import StackError

if TYPE_CHECKING:
    from compose.settings.settings import Settings

WEBHOOK_PATH: Final = "/v1/webhooks"


def run(settings: Settings, instance: int) -> None:
    """Serves one processor's simulator until SIGTERM. Raises StackError with one line of advice when it cannot start.

    ``instance`` counts the processors that the stack starts; its folder, book and webhooks are the processor's own.
    """
    addresses = settings.addresses()
    processor = settings.embedded_processors()[instance]
    port = next(p.port for p in addresses.processors if p.name == processor)
    serve_ops(None, partial(_readiness, port))
    try:
        receiver = None
        if "webhook_worker" in settings.services:  # without it nobody would ever apply what is told
            url = f"{addresses.base_url}{WEBHOOK_PATH}/{processor}"
            receiver = Receiver(url, settings.active_webhook_secrets_of(processor)[0])
        serve_forever(SimulatorConfig(folder=settings.the_home().data(processor), receiver=receiver), port)
    except SimulatorError as error:
        raise StackError(error.message) from error


def _readiness(port: int) -> bool | str:
    # Asked through its own front door: the port is open and the writer goes through a transaction.
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=limits.SIMULATOR_READY_TIMEOUT_S)
    try:
        connection.request("GET", "/readyz")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"the simulator does not answer: {error}"
    finally:
        connection.close()
    return status == HTTPStatus.OK or "the simulator's book does not answer"
