"""The process that starts of a worker are forked from (``tests.starts``): ``python -m tests.fork_server DESCRIPTOR``."""

from __future__ import annotations

import importlib.util
import socket
import sys
from typing import Final

from compose.cli import COMMANDS
from compose.settings.settings import SERVICES
from compose.supervise.fork_server import serve
from compose.supervise.plan import FORKED_WITH

_LONG: Final = ("demo", "soak", "bench")  # minutes of work: their imports do not count
_CARDS: Final = ("simulator",)  # knows numbers of cards by heart, which no memory of another process may hold


def _modules() -> list[str]:
    services = [f"compose.services.{name}" for name in SERVICES if name not in _CARDS]
    commands = [f"compose.cli.{name}" for name in COMMANDS if name not in _LONG]
    known = [name for name in (*services, *commands) if importlib.util.find_spec(name)]
    return [*FORKED_WITH, "compose.supervise.supervisor", *known]


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), _modules())
