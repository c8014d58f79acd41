"""Loopback ports: a preferred one, a free one when that is busy, and the same one again after a restart.

A port that an operator set is never replaced: busy then is an error. A stack leases its ports from the moment it
chooses them until it ends, so that two stacks that start at once never choose the same.
"""

from __future__ import annotations

import json
import random
import socket
from itertools import chain
from typing import TYPE_CHECKING, Final

from compose.stack.errors import StackError
from compose.stack.home import read_json, write_private

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
    """Ports that are ours until this process ends: for each a name that the kernel gives to one process at a time.

    Abstract names of unix(7) and no locked files: processes whose TMPDIR differs share the ports of one machine.
    """

    def __init__(self) -> None:
        self._held: dict[int, socket.socket] = {}

    def take(self, port: int) -> bool:
        """True when the port is free and nobody else leased it; from then on it is ours."""
        if port in self._held or not is_free(port):
            return False
        lease = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            lease.bind(f"\0millrace-port-{port}")
        except OSError:  # another's
            lease.close()
            return False
        self._held[port] = lease
        return True

    def take_any(self) -> int:
        """A free port that is ours from now on."""
        port = next(filter(self.take, around(_CHOICE)), None)
        if port is not None:
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
        for lease in self._held.values():
            lease.close()
        self._held.clear()


def around(ports: range) -> Iterator[int]:
    """All of them, from a random one on."""
    first = random.randrange(len(ports))
    return chain(ports[first:], ports[:first])


def remembered(home: Home) -> dict[str, int]:
    """The ports of the last start; empty before the first."""
    return dict(read_json(home.ports_file) or {})
