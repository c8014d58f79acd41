"""The roles of running processes. None owns a table; migrations run as the role of MILLRACE_POSTGRES_DSN."""

from __future__ import annotations

from typing import Final

from schemas.services import SERVICES

_ROLES: Final = (
    "millrace_owner",  # partition owners of payments: the only role that writes its aggregates and the ledger
    "millrace_limiter_owner",  # partition owners of the rate limiter: quota policies and durable quotas
    "millrace_ingress",  # reads stored results, resources and events
    "millrace_worker",  # processor calls: leases and schedules
    "millrace_settlement",  # reports of processors, fetched and reconciled without a person
    "millrace_leases",  # settlements of the rate limiter's leases
    "millrace_sink",  # ClickHouse sink: plans of blocks
    "millrace_console",  # the operator console in the ingress: reads, and ends sessions
    "millrace_operator",  # check, replay, checkpoints, parked work
    "millrace_social_media",  # the origin of media: what was received, what may be served
    "millrace_vault",  # the card vault: the only role that reads its schema
    "millrace_reader",  # analysts and scripts: select only
)
_OF_WORKERS: Final = (worker.role for service in SERVICES for worker in service.workers)
#: makes schemas and databases: those of single tenants, which it owns
CREATES_DATABASES: Final = frozenset({"millrace_tenancy_mover"})
#: those, and of every service the roles of its owners and of its workers
ROLES: Final = tuple(dict.fromkeys((*_ROLES, *(service.owner_role for service in SERVICES), *_OF_WORKERS)))
