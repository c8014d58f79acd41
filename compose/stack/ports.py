"""Loopback ports: a preferred one, a free one when that is busy, and the same one again after a restart.

A port that an operator set is never replaced: busy then is an error. A stack leases its ports from the moment it
chooses them until it ends, so that two stacks that start at once never choose the same.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from compose.stack.errors import StackError
from compose.stack.home import read_json, write_private

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compose.stack.home import Home

LOOPBACK: Final = "127.0.0.1"
#: below what kernels give to outgoing connections, so that none of those takes a port between choice and use
_CHOICE: Final = range(20_000, 32_000)


def is_free(port: int) -> bool:
    """Whether nobody listens on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


class PortLeases:
    """Ports that are ours until this process ends: a locked file for each, which dies with its holder."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.gettempdir()) / f"millrace-ports-{os.geteuid()}"
        self._held: dict[int, TextIO] = {}

    def take(self, port: int) -> bool:
        """True when the port is free and nobody else leased it; from then on it is ours."""
        if port in self._held or not is_free(port):
            return False
        self._folder.mkdir(mode=0o700, exist_ok=True)
        lock = (self._folder / str(port)).open("a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return False
        self._held[port] = lock
        return True

    def take_any(self) -> int:
        """A free port that is ours from now on."""
        for port in random.sample(_CHOICE, len(_CHOICE)):
            if self.take(port):
                return port
        raise StackError(f"no free port between {_CHOICE.start} and {_CHOICE.stop}: stop some stacks")

    def assign(self, home: Home, preferred: Mapping[str, int], explicit: Mapping[str, int]) -> dict[str, int]:
        """Chooses and leases a port for every name and remembers the choice in the home.

        Order: what the operator set (busy = ``StackError``), what this home had, the preferred one, a free one.
        """
        last = remembered(home)
        chosen: dict[str, int] = {}
        for name, port in explicit.items():
            if not self.take(port):
                raise StackError(
                    f"port {port} for {name} is in use: stop what listens there (ss -ltnp 'sport = :{port}') "
                    f"or set MILLRACE_{name.upper()} to another port"
                )
            chosen[name] = port
        for name, default in preferred.items():
            if name not in chosen:
                usable = (port for port in (last.get(name), default) if port is not None and self.take(port))
                chosen[name] = next(usable, None) or self.take_any()
        write_private(home.ports_file, json.dumps(chosen, indent=1))
        return chosen

    def close(self) -> None:
        """Gives every port back."""
        for lock in self._held.values():
            lock.close()
        self._held.clear()


def remembered(home: Home) -> dict[str, int]:
    """The ports of the last start; empty before the first."""
    return dict(read_json(home.ports_file) or {})
