"""Ports that are known before a stack starts, or stay while it is down: stacks draw higher ones, and prefer lower ones."""

from __future__ import annotations

from contextlib import closing
from itertools import islice

from compose.stack.ports import PortLeases, around

_NOBODY_DRAWS = range(12_000, 20_000)


def free_ports(count: int) -> list[int]:
    """So many on which nobody listens now, and that no stack chooses by itself."""
    with closing(PortLeases()) as leases:
        return list(islice(filter(leases.take, around(_NOBODY_DRAWS)), count))
