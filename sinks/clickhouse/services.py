"""The sinks of this installation: for each service that is declared, those of its module for ``sinks.clickhouse``."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from schemas.services import SERVICES
from sinks.clickhouse.declared_sink import DeclaredSink, declared_in

_BY_SERVICE: Final = {s.name: declared_in(import_module(s.module("sinks.clickhouse"))) for s in SERVICES}
SINKS: Final[dict[str, DeclaredSink]] = {sink.name: sink for sinks in _BY_SERVICE.values() for sink in sinks}

if len(SINKS) != sum(map(len, _BY_SERVICE.values())):
    raise ValueError("the name of a sink is given twice")
_FILES: Final = {(file, sink.package) for sink in SINKS.values() for file, _ in sink.definitions()}
if len({file for file, _ in _FILES}) != len(_FILES):
    raise ValueError(f"the name of a definition is given twice: {sorted(_FILES)}")


def sink_of_events(service: str) -> DeclaredSink | None:
    """Where a service's events are in ClickHouse, if anywhere."""
    return next((sink for sink in _BY_SERVICE[service] if sink.keeps_events), None)
