"""Processes that services declare: owners of those in packages of their own, and the workers of all."""

from __future__ import annotations

from typing import Final

from schemas.services import FURTHER, SERVICES

#: the name of an owner's process to its service; they run wherever such a service is named
OWNERS: Final = {f"{service.name}_owner": service for service in FURTHER}
WORKERS: Final = {worker.name: worker for service in SERVICES for worker in service.workers}
PROCESSES: Final = (*OWNERS, *WORKERS)

if len(WORKERS) != sum(len(service.workers) for service in SERVICES) or OWNERS.keys() & WORKERS.keys():
    raise ValueError("the name of a process is given twice")
