"""Wires the isolation monitor: the process ``tenancy_monitor``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compose.isolation.egress import Egress
from compose.isolation.monitor import Monitor
from compose.settings.settings import load_settings
from sinks.tenancy import secrets_file
from sinks.tenancy.contexts import Contexts

if TYPE_CHECKING:
    from dataflows.worker.contract import WorkerPlace


def build(place: WorkerPlace) -> Monitor:
    """Over the API of this installation."""
    settings = load_settings(opens_files=False)
    keys = settings.the_home().path / "keys"
    secrets = secrets_file.read(keys)
    egress = Egress(settings.the_home().logs)
    issuer, contexts = settings.monitor_issuer(keys), Contexts(secrets)
    return Monitor(place.postgres_dsn, settings.addresses(), issuer, contexts, egress, secrets.context_key)
