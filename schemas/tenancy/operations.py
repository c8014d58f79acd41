"""The operations on tenants and their resources. The aggregate of all is the tenant: one owner decides for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from schemas import senders
from schemas.fields.validation import Field
from schemas.fields.value_types import COUNT, CURRENCY, ID, SIGNALS, whole
from schemas.identity import derived_id
from schemas.limits import DOCUMENT_BODY_BYTES_MAX
from schemas.operation import Named, Operation
from schemas.tenancy import limits
from schemas.tenancy import value_types as types

if TYPE_CHECKING:
    from collections.abc import Callable

    from schemas.records import Command

SERVICE_NAME: Final = "tenancy"
#: what the name of a tenant's principal begins with
TENANT_SCOPE: Final = "tenant:"
STAFF: Final = "tenants:admin"
MEMBER_ADMIN: Final = "tenant:admin"
READ: Final = "resources:read"
WRITE: Final = "resources:write"
TENANT: Final = "/v1/tenants/{id}"
RESOURCES: Final = "/v1/resources"


def tenant_of(scope: str) -> str:
    """The tenant in whose name a command is; "" when it is in nobody's of this kind."""
    return scope.removeprefix(TENANT_SCOPE) if scope.startswith(TENANT_SCOPE) else ""


def scope_of(tenant_id: str) -> str:
    """In whose name a tenant's commands and events are."""
    return TENANT_SCOPE + tenant_id


def resource_of(scope: str, idempotency_key: str) -> str:
    """The id that a create makes: a retried create makes the same one."""
    return derived_id("rs", scope, CREATE_RESOURCE, idempotency_key)


CREATE_RESOURCE: Final = f"POST {RESOURCES}"


def of_caller(named: Named) -> str:
    """The aggregate of what a tenant does in its own name: itself."""
    return tenant_of(named.scope)


def made_id(prefix: str, template: str, scope: str, idempotency_key: str) -> str:
    """The id of what a command makes below a tenant (an export, a move): from its retry identity, as all ids are."""
    return derived_id(prefix, scope, template, idempotency_key)


def _changes(payload: dict[str, Any]) -> list[dict[str, str]]:
    """Rule: what changes nothing is no version."""
    if any(value is not None for value in payload.values()):
        return []
    return [{"field": "payload", "reason": "must change something"}]


#: who acts, as the ingress has it of the token: no part of the request, and no program outside says it
PERSON: Final = "person"
ACTS: Final = Field(SIGNALS, "the person who acts", default=None, nullable=True, since=2)


def person_of(command: Command) -> str | None:
    """Who acts by this command, where it says so."""
    found: str | None = (command.signals or {}).get(PERSON)
    return found


_REASON: Final = {"reason": Field(types.REASON, "why, for people")}


def of_tenant(
    name: str,
    record: str,
    path: str,
    summary: str,
    payload: dict[str, Field] | None = None,
    *,
    result: str = "CommittedTenant",
    method: str = "POST",
    creates: str | None = None,
    result_id: str = "tenant_id",
    refusals: tuple[str, ...] = (),
    needs_version: bool = False,
    scope: str | None = STAFF,
    together: Callable[[dict[str, Any]], list[dict[str, str]]] | None = None,
    read_at: str | None = None,
) -> Operation:
    """An operation of staff on one tenant."""
    return Operation(
        name=name,
        service=SERVICE_NAME,
        method=method,
        path=path,
        record=record,
        payload=payload or {},
        summary=summary,
        result=result,
        scope=scope,
        refusals=("state_conflict", *refusals),
        id_name="tenant_id",
        creates=creates,
        aggregate=lambda named: named.path_id or "",
        result_id=result_id,
        needs_version=needs_version,
        together=together,
        read_at=read_at,
        signals=ACTS,
    )


_TENANT_OPERATIONS: Final = (
    Operation(
        name="create_tenant",
        service=SERVICE_NAME,
        method="POST",
        path="/v1/tenants",
        record="CreateTenant",
        payload={
            "name": Field(types.NAME, "what people call it"),
            "tier": Field(types.TIER, "standard or enterprise", default="standard"),
            "placement": Field(types.PLACEMENT, "where its data shall be", default={"mode": "pooled"}),
            "timezone": Field(types.TIME_ZONE, "the zone of its days and months", default="UTC"),
            "home_currency": Field(CURRENCY, "the currency of its invoices", default="USD"),
            "quotas": Field(
                types.QUOTAS,
                "limits by dimension; null is none",
                default={},
                normal=types.texts_of_quotas,
                said=types.given_quotas,
            ),
            "prices": Field(
                types.PRICES, "minor units a unit, or tiers, by dimension", default={}, normal=types.texts_of_prices
            ),
        },
        summary="Provision a tenant",
        result="CommittedTenant",
        scope=STAFF,
        refusals=("state_conflict", "placement_full"),
        signals=ACTS,
        creates="tn",
        result_id="tenant_id",
    ),
    of_tenant(
        "change_tenant",
        "ChangeTenant",
        TENANT,
        "Change a tenant's name, tier, zone, quotas or prices",
        {
            "name": Field(types.NAME, "what people call it", default=None, nullable=True),
            "tier": Field(types.TIER, "standard or enterprise", default=None, nullable=True),
            "timezone": Field(types.TIME_ZONE, "the zone of its days and months", default=None, nullable=True),
            "quotas": Field(
                types.QUOTAS,
                "all its limits by dimension",
                default=None,
                nullable=True,
                normal=types.texts_of_quotas,
                said=types.given_quotas,
            ),
            "prices": Field(
                types.PRICES, "all its prices by dimension", default=None, nullable=True, normal=types.texts_of_prices
            ),
        },
        method="PATCH",
        refusals=("version_required",),
        needs_version=True,
        together=_changes,
    ),
    of_tenant(
        "suspend_tenant",
        "SuspendTenant",
        f"{TENANT}/suspend",
        "Refuse a tenant's writes, or all its calls",
        {"mode": Field(types.SUSPENSION, "read_only refuses writes, blocked everything"), **_REASON},
    ),
    of_tenant("resume_tenant", "ResumeTenant", f"{TENANT}/resume", "Serve a suspended tenant again"),
    of_tenant("offboard_tenant", "OffboardTenant", f"{TENANT}/offboard", "Begin the end of a tenant", _REASON),
    of_tenant(
        "export_tenant",
        "ExportTenant",
        f"{TENANT}/export",
        "Write all live resources of a tenant as NDJSON",
        result="CommittedTenantExport",
        creates="ex",
        read_at=f"{TENANT}/exports",
        result_id="export_id",
        refusals=("key_shredded",),
    ),
    of_tenant("delete_tenant", "DeleteTenant", f"{TENANT}/delete", "Delete everything of an exported tenant", _REASON),
    of_tenant(
        "rotate_tenant_key",
        "RotateTenantKey",
        f"{TENANT}/keys/rotate",
        "Seal with a new key from now on",
        result="CommittedKey",
        refusals=("key_shredded",),
    ),
    of_tenant(
        "shred_tenant_keys",
        "ShredTenantKeys",
        f"{TENANT}/keys/shred",
        "Destroy all keys of a tenant: nothing of it can be read again",
        _REASON,
        result="CommittedKey",
        refusals=("key_shredded",),
    ),
    of_tenant(
        "start_migration",
        "StartMigration",
        f"{TENANT}/migrations",
        "Move a tenant to another placement",
        {
            "placement": Field(types.PLACEMENT, "where its data shall be"),
            "rows_per_second": Field(
                whole(1, limits.MOVE_ROWS_PER_SECOND_MAX), "bound of the copy", default=limits.MOVE_ROWS_PER_SECOND_MAX
            ),
        },
        result="CommittedMigration",
        creates="mg",
        result_id="migration_id",
        refusals=("key_shredded", "placement_full"),
    ),
    *(
        of_tenant(
            f"{verb}_migration",
            f"{verb.capitalize()}Migration",
            f"{TENANT}/migrations/{{migration_id}}/{verb}",
            summary,
            {"migration_id": Field(ID, "the move")},
            result="CommittedMigration",
            result_id="migration_id",
        )
        for verb, summary in (
            ("abort", "Give up a move that is not committed"),
            ("rollback", "Go back to the source of a move that soaks"),
            ("complete", "Empty the source of a move that soaks"),
        )
    ),
)
_SEALED: Final = {
    "resource_id": Field(ID, "the resource"),
    "key_version": Field(COUNT, "the key that sealed it"),
    "size": Field(COUNT, "of the payload, in bytes"),
    "sealed": Field(types.SEALED, "the payload, sealed with the tenant's key"),
}
_RESOURCE_REFUSALS: Final = ("tenant_not_active", "key_shredded")
_RESOURCE_OPERATIONS: Final = (
    Operation(
        name="create_resource",
        service=SERVICE_NAME,
        method="POST",
        path=RESOURCES,
        record="CreateResource",
        payload=_SEALED,
        summary="Make a resource",
        result="CommittedResource",
        scope=WRITE,
        refusals=(*_RESOURCE_REFUSALS, "quota_exceeded"),
        creates="rs",
        aggregate=of_caller,
        document=True,
        body_bytes_max=DOCUMENT_BODY_BYTES_MAX,
        result_id="resource_id",
    ),
    Operation(
        name="replace_resource",
        service=SERVICE_NAME,
        method="PUT",
        path=f"{RESOURCES}/{{id}}",
        record="ReplaceResource",
        payload=_SEALED,
        summary="Replace a resource's payload",
        result="CommittedResource",
        scope=WRITE,
        refusals=(*_RESOURCE_REFUSALS, "version_required"),
        id_name="resource_id",
        path_field="resource_id",
        aggregate=of_caller,
        document=True,
        body_bytes_max=DOCUMENT_BODY_BYTES_MAX,
        result_id="resource_id",
        needs_version=True,
    ),
    Operation(
        name="delete_resource",
        service=SERVICE_NAME,
        method="DELETE",
        path=f"{RESOURCES}/{{id}}",
        record="DeleteResource",
        payload={"resource_id": Field(ID, "the resource")},
        summary="Delete a resource",
        result="CommittedDeletion",
        scope=WRITE,
        outside=senders.TENANT,
        refusals=(*_RESOURCE_REFUSALS, "version_required"),
        id_name="resource_id",
        path_field="resource_id",
        aggregate=of_caller,
        result_id="resource_id",
        needs_version=True,
    ),
)
OPERATIONS: Final = (*_TENANT_OPERATIONS, *_RESOURCE_OPERATIONS)
