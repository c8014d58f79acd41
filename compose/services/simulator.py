"""Wires the processor simulator's process: its folder and port from the settings, nothing else of ours.

The simulator is an outside system. If it were given any of our addresses, it would no longer be a witness.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from compose.simulator.app import SimulatorConfig
from compose.simulator.errors import SimulatorError
from compose.simulator.server import serve_forever
from compose.stack.errors import StackError

if TYPE_CHECKING:
    from compose.settings import Settings

FOLDER_NAME: Final = "simulator"


def run(settings: Settings, instance: int) -> None:  # noqa: ARG001 - one to a stack, its port guards that
    """Serves until SIGTERM. Raises StackError with one line of advice when it cannot start."""
    config = SimulatorConfig(folder=settings.the_home().data(FOLDER_NAME))
    try:
        serve_forever(config, settings.addresses().processor_port)
    except SimulatorError as error:
        raise StackError(error.message) from error
