"""Lets services load their code while the servers start, and run only once there is something to run on.

The supervisor holds the write end of a pipe and puts one byte into it for each service. Without a byte, because
the supervisor ended, a service ends too.
"""

from __future__ import annotations

import os
from typing import Final

from compose.stack.errors import StackError

VARIABLE: Final = "MILLRACE_GATE"


class Gate:
    """The supervisor's side: closed until ``open``."""

    def __init__(self) -> None:
        self.read_end, self._write_end = os.pipe()

    def environment(self) -> dict[str, str]:
        """What a waiting service finds its end by."""
        return {VARIABLE: str(self.read_end)}

    def open(self, services: int) -> None:
        """Lets that many waiting services go on."""
        os.write(self._write_end, b"." * services)

    def close(self) -> None:
        """Ends those that still wait."""
        os.close(self.read_end)
        os.close(self._write_end)


def pass_gate() -> None:
    """Returns once the gate of this process is open, at once when it has none; ``StackError`` when it never opens."""
    descriptor = os.environ.pop(VARIABLE, "")
    if not descriptor:
        return
    read_end = int(descriptor)
    opened = os.read(read_end, 1)
    os.close(read_end)
    if not opened:
        raise StackError("the supervisor ended before the servers were ready")
