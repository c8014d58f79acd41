"""Wires the isolation monitor: the process ``tenancy_monitor``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compose.isolation.counter_probes import CounterProbes
from compose.isolation.egress import Egress
from compose.isolation.monitor import Monitor
from compose.isolation.stream_probes import StreamProbes
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
    streams = StreamProbes(place.kafka, place.client_id, has_rules=settings.kafka_bootstrap is None)
    return Monitor(
        place.postgres_dsn,
        settings.addresses(),
        settings.monitor_issuer(keys),
        Contexts(secrets),
        egress,
        streams,
        CounterProbes(settings.addresses().redis_url_of(place.name)),
        secrets.context_key,
    )
