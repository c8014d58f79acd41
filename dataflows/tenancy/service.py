"""The multi-tenant platform as the owner runtime sees it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dataflows.owner.service import OwnedService
from dataflows.tenancy.partition import TenancyPartition
from schemas.tenancy.service import SERVICE
from sinks.tenancy import secrets_file
from sinks.tenancy.contexts import Contexts
from sinks.tenancy.root_keys import RootKeys

if TYPE_CHECKING:
    from pathlib import Path


def owned(keys: Path) -> OwnedService:
    """The service that owns tenants and their resources; ``keys`` is the folder of the home's private files."""
    held = secrets_file.read(keys)
    return OwnedService(
        declared=SERVICE, open_partition=partial(TenancyPartition, contexts=Contexts(held), root_keys=RootKeys(held))
    )
