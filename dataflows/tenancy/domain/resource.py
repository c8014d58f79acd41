"""Decides commands on resources, and the hard quota on live ones. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from dataflows.tenancy.domain import entitled
from dataflows.tenancy.domain.entitled import Limit
from dataflows.tenancy.domain.tenant import Tenant
from schemas.records import Command, Denial, Rejection
from schemas.refusals import stale, wrong_value
from schemas.tenancy.operations import resource_of

DIMENSION: Final = "resources"
_NOT_FOUND: Final = Rejection("not_found", "No such object.")


class Head(Struct, frozen=True, kw_only=True):
    """The newest version of a resource; a store has its payload."""

    tenant_id: str
    resource_id: str
    version: int
    deleted: bool
    size: int
    created_at: int
    updated_at: int


def identity_of(command: Command) -> str:
    """The resource of a command. A new one's id is made of the retry identity, whatever the command names."""
    if command.operation == "create_resource":
        return resource_of(command.scope, command.idempotency_key)
    return str(command.payload["resource_id"])


def decide(
    head: Head | None, tenant: Tenant, used: int, command: Command, now: int, limits: Sequence[Limit] = ()
) -> Head | Rejection:
    """The head after the command, or a refusal. ``limits``: those of the tenant's entitlements."""
    payload: dict[str, Any] = command.payload
    if command.operation == "create_resource":
        if head is not None:
            return Rejection("state_conflict", "The resource exists already.")
        if payload["resource_id"] != identity_of(command):
            return wrong_value("payload.resource_id", "must be that of the retry identity")
        refused = stale(command.expected_version, 0) or _over(tenant, used) or entitled.refusal(limits, used)
        return refused or _head(command, tenant, 1, now, now)
    if head is None or head.deleted:
        return _NOT_FOUND
    if refused := stale(command.expected_version, head.version):
        return refused
    return _head(command, tenant, head.version + 1, head.created_at, now)


def live_change(command: Command) -> int:
    """The change of the count of live resources."""
    return {"create_resource": 1, "delete_resource": -1}.get(command.operation, 0)


def _over(tenant: Tenant, used: int) -> Rejection | None:
    """Rule: quotas are decided in the commit. Not stored, so the same identity may ask again when there is room."""
    limit = tenant.quotas.get(DIMENSION, "")
    if not limit or used < int(limit):
        return None
    numbers: dict[str, object] = {"dimension": DIMENSION, "limit": int(limit), "used": used}
    return Denial(
        "quota_exceeded",
        "The tenant has as many resources as it may have: delete one, or have its quota raised.",
        numbers,
    )


def _head(command: Command, tenant: Tenant, version: int, created_at: int, now: int) -> Head:
    payload: dict[str, Any] = command.payload
    deleted = command.operation == "delete_resource"
    return Head(
        tenant_id=tenant.tenant_id,
        resource_id=identity_of(command),
        version=version,
        deleted=deleted,
        size=0 if deleted else payload["size"],
        created_at=created_at,
        updated_at=now,
    )
