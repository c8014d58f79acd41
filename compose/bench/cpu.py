"""CPU seconds of groups of processes, taken from the kernel; what a server's ended children used is counted too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import psutil


def cpu_seconds(groups: Mapping[str, Sequence[int]]) -> dict[str, float]:
    """User and system time so far of every group, with all descendants."""
    return {name: sum(_tree_seconds(pid) for pid in pids) for name, pids in groups.items()}


def _tree_seconds(pid: int) -> float:
    try:
        root = psutil.Process(pid)
        members = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0.0
    total = 0.0
    for member in members:
        try:
            times = member.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
        if member is root:
            total += times.children_user + times.children_system
    return total
