"""Wires the isolation monitor: the process ``tenancy_monitor``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sinks.tenancy import secrets_file
from sinks.tenancy.contexts import Contexts

from compose.isolation.monitor import Monitor
from compose.settings.settings import load_settings

if TYPE_CHECKING:
    from dataflows.worker.contract import WorkerPlace


def build(place: WorkerPlace) -> Monitor:
    """Over the API of this installation."""
    settings = load_settings()
    contexts = Contexts(secrets_file.ensure(place.keys))
    return Monitor(place.postgres_dsn, settings.addresses(), settings.monitor_issuer(place.keys), contexts)
