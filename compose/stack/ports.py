"""Loopback ports: a preferred one, a free one when that is busy, and the same one again after a restart.

A port that an operator set is never replaced: busy then is an error.
"""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Final

from compose.stack.errors import StackError
from compose.stack.home import read_json, write_private

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compose.stack.home import Home

LOOPBACK: Final = "127.0.0.1"


def is_free(port: int) -> bool:
    """Whether nobody listens on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def pick_free(taken: set[int]) -> int:
    """A port that the kernel calls free and that is not in ``taken``."""
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind((LOOPBACK, 0))
            port = int(probe.getsockname()[1])
        if port not in taken:
            return port


def remembered(home: Home) -> dict[str, int]:
    """The ports of the last start; empty before the first."""
    return dict(read_json(home.ports_file) or {})


def assign(home: Home, preferred: Mapping[str, int], explicit: Mapping[str, int]) -> dict[str, int]:
    """Chooses a port for every name and remembers the choice; nothing of this home may be running.

    Order: what the operator set (busy = ``StackError``), what this home had, the preferred one, a free one.
    """
    last = remembered(home)
    chosen: dict[str, int] = {}
    for name, port in explicit.items():
        if not is_free(port):
            raise StackError(
                f"port {port} for {name} is in use: stop what listens there (ss -ltnp 'sport = :{port}') "
                f"or set MILLRACE_{name.upper()} to another port"
            )
        chosen[name] = port
    for name, default in preferred.items():
        if name in chosen:
            continue
        taken = set(chosen.values())
        candidates = (port for port in (last.get(name), default) if port is not None)
        usable = (port for port in candidates if port not in taken and is_free(port))
        chosen[name] = next(usable, None) or pick_free(taken)
    write_private(home.ports_file, json.dumps(chosen, indent=1))
    return chosen
