"""What the services of this installation give to reconciliation, of all of them together."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from reconciliation.contract.reconciled_service import ReconciledService
from schemas.services import SERVICES

_ALL: Final[tuple[ReconciledService, ...]] = tuple(
    import_module(service.module("reconciliation")).RECONCILED for service in SERVICES
)
COMPUTED: Final = {id_: computed for service in _ALL for id_, computed in service.computed.items()}
OUTSIDE: Final = {id_: outside for service in _ALL for id_, outside in service.outside.items()}
COMPARED_TABLES: Final = {name: table for service in _ALL for name, table in service.compared_tables.items()}
EXCHANGED_TABLES: Final = {name: table for service in _ALL for name, table in service.exchanged_tables.items()}
