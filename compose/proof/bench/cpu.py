"""CPU seconds and memory of groups of processes with their children; CPU is cheap enough for twenty looks a second.

Read from /proc: walking over every process of the machine for each look would disturb what is measured.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_KB_PER_MB: Final = 1_024
_USER_TIME: Final = 11  # of the fields after the name: user, system, and the same of children that ended


def cpu_seconds(groups: Mapping[str, Sequence[int]]) -> dict[str, float]:
    """User and system time so far of every group: its processes, their children, and what has ended of both."""
    return {name: sum(_family_seconds(pid) for pid in pids) for name, pids in groups.items()}


def memory_mb(groups: Mapping[str, Sequence[int]]) -> dict[str, float]:
    """Memory of every group in megabytes: its processes and their children. Pages that several share are divided."""
    return {
        name: round(sum(_proportional_mb(one) for pid in pids for one in (pid, *_children(pid))), 1)
        for name, pids in groups.items()
    }


def _proportional_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / _KB_PER_MB


def machine_seconds() -> float:
    """CPU seconds that the whole machine has used so far, whoever used them."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _io_wait, irq, soft_irq, steal = map(int, fields[:8])
    return (user + nice + system + irq + soft_irq + steal) * _TICK_S


def _family_seconds(pid: int) -> float:
    return sum(sum(_times(one)) for one in (pid, *_children(pid)))


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
