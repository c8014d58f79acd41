"""Processes that services declare: owners that nothing else wires, and the workers of all."""

from __future__ import annotations

from typing import Final

from compose.stack.errors import StackError
from schemas.services import SERVICES

#: the name of an owner's process to its service; they run wherever such a service is named
OWNERS: Final = {f"{service.name}_owner": service for service in SERVICES if not service.wired}
WORKERS: Final = {worker.name: worker for service in SERVICES for worker in service.workers}
PROCESSES: Final = (*OWNERS, *WORKERS)

if len(WORKERS) != sum(len(service.workers) for service in SERVICES) or OWNERS.keys() & WORKERS.keys():
    raise ValueError("the name of a process is given twice")


def process_counts(setting: str) -> dict[str, int]:
    """How many of each declared process this machine runs, by ``MILLRACE_WORKER_PROCESSES``. Raises StackError."""
    given = {name: int(count) for name, _, count in (one.partition("=") for one in setting.split())}
    if unknown := given.keys() - set(PROCESSES):
        names = ", ".join(PROCESSES) or "none"
        raise StackError(f"MILLRACE_WORKER_PROCESSES: no process {', '.join(sorted(unknown))}; there are {names}")
    return dict.fromkeys(OWNERS, 1) | {name: worker.processes for name, worker in WORKERS.items()} | given
