"""What the services of this installation give to reconciliation, of all of them together."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from reconciliation.contract.reconciled_service import ReconciledService
from schemas.services import SERVICES

RECONCILED: Final[dict[str, ReconciledService]] = {
    service.name: import_module(service.module("reconciliation")).RECONCILED for service in SERVICES
}
_ALL: Final = tuple(RECONCILED.values())
COMPUTED: Final = {id_: computed for service in _ALL for id_, computed in service.computed.items()}
ANALYSED: Final = {id_: analysed for service in _ALL for id_, analysed in service.analysed.items()}
OUTSIDE: Final = {id_: outside for service in _ALL for id_, outside in service.outside.items()}
SINK_ENDS: Final = {sink: ends for service in _ALL for sink, ends in service.sink_ends.items()}
COMPARED_STORES: Final = {id_: stores for service in _ALL for id_, stores in service.compared_stores.items()}
