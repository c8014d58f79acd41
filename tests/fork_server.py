"""The process that starts of a worker, or workers, are forked from (``tests.starts``).

``python -m tests.fork_server [MODULE ...] DESCRIPTOR``: the modules are imported besides those of ours.
"""

from __future__ import annotations

import importlib.util
import socket
import sys
from typing import Final

from compose.cli import COMMANDS, module_of
from compose.settings.settings import SERVICES
from compose.supervise.fork_server import serve
from compose.supervise.plan import FORKED_WITH

_LONG: Final = ("demo", "soak", "bench")  # minutes of work: their imports do not count
_CARDS: Final = ("simulator",)  # knows numbers of cards by heart, which no memory of another process may hold


def modules() -> list[str]:
    """Those of all services and commands that may be forked."""
    services = [f"compose.services.{name}" for name in SERVICES if name not in _CARDS]
    commands = [module_of(name) for name in COMMANDS if name not in _LONG]
    known = [name for name in (*services, *commands) if importlib.util.find_spec(name)]
    return [*FORKED_WITH, "compose.supervise.supervisor", *known]


if __name__ == "__main__":
    *further, descriptor = sys.argv[1:]
    serve(socket.socket(fileno=int(descriptor)), [*modules(), *further])
