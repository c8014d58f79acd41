"""CPU time of every process of a stack, with what it started: Postgres works in its backends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psutil

if TYPE_CHECKING:
    from collections.abc import Mapping

_US_PER_S: Final = 1_000_000


def cpu_seconds(pids: Mapping[str, int]) -> dict[str, float]:
    """Seconds that each named process and its descendants have used so far; one that is gone counts nothing."""
    names = {pid: name for name, pid in pids.items()}
    parents = {process.pid: process.info["ppid"] for process in psutil.process_iter(["ppid"])}
    used = dict.fromkeys(pids, 0.0)
    for pid in parents:
        name = _named_ancestor(pid, names, parents)
        if name is not None:
            used[name] += _seconds(pid)
    return used


def cpu_us_per_command(before: Mapping[str, float], after: Mapping[str, float], commands: int) -> dict[str, float]:
    """Microseconds per command by process, the heaviest first."""
    used = {name: (after[name] - before.get(name, 0.0)) * _US_PER_S for name in after}
    ordered = sorted(used.items(), key=lambda item: -item[1])
    return {name: round(spent / max(1, commands), 1) for name, spent in ordered}


def _named_ancestor(pid: int, names: Mapping[int, str], parents: Mapping[int, int]) -> str | None:
    """The name of the process itself or of the nearest ancestor that has one."""
    while pid not in names:
        if pid not in parents:
            return None
        pid = parents[pid]
    return names[pid]


def _seconds(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    # Descendants that ended are in their parent's account; those that run are counted themselves.
    return float(times.user + times.system + times.children_user + times.children_system)
