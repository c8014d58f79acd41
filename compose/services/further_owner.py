"""Wires one owner of a service that lies in a package of its own (``MILLRACE_SERVICE_MODULES``)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from compose.services.partition_owner import PartitionOwner
from schemas.services import BY_NAME

if TYPE_CHECKING:
    from compose.settings.settings import Settings


def run(settings: Settings, instance: int, service: str) -> None:
    """Owns partitions of the service until SIGTERM, then drains."""
    declared = BY_NAME[service]
    owner = PartitionOwner(settings, declared)
    owner.run(import_module(declared.module("dataflows")).OWNED, f"{service}-owner", instance)
