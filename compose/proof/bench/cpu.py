"""CPU seconds of groups of processes with their children, cheap enough to ask for twenty times a second.

Read from /proc: walking over every process of the machine for each look would disturb what is measured.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_USER_TIME: Final = 11  # of the fields after the name: user, system, and the same of children that ended


def cpu_seconds(groups: Mapping[str, Sequence[int]]) -> dict[str, float]:
    """User and system time so far of every group: its processes, their children, and those that have ended."""
    return {name: sum(_family_seconds(pid) for pid in pids) for name, pids in groups.items()}


def machine_seconds() -> float:
    """CPU seconds that the whole machine has used so far, whoever used them."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _io_wait, irq, soft_irq, steal = map(int, fields[:8])
    return (user + nice + system + irq + soft_irq + steal) * _TICK_S


def _family_seconds(pid: int) -> float:
    return sum(_times(pid)) + sum(sum(_times(child)[:2]) for child in _children(pid))


def _children(pid: int) -> list[int]:
    try:
        return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _times(pid: int) -> list[float]:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return [0.0]
    return [int(ticks) * _TICK_S for ticks in fields[_USER_TIME : _USER_TIME + 4]]
