"""The document of what is read of tenants and their resources, and of what their commands answer."""

from __future__ import annotations

from typing import Any, Final

from ingress.http.openapi import elements
from ingress.http.openapi.shared import (
    INTEGER,
    INTEGER_OR_NULL,
    OBJECT_ID,
    STRING,
    TEXT_OR_NULL,
    a_schema,
    array_of,
    list_of,
    page_of,
    ref,
)
from ingress.identity.roles import by_operators
from schemas.tenancy.operations import MEMBER_ADMIN, READ, STAFF
from schemas.tenancy.placement_decision import ACTIVATE, DRAIN

Json = dict[str, Any]
_OBJECT: Final = {"type": "object"}
PLACEMENT_STATES: Final = ["provisioning", "active", "draining", "full", "retired"]
_COUNTS_OF_READS: Final = ("match", "target_behind", "missing", "diff", "target_ahead")
_REFUSED: Final = (
    *elements.COMMON,
    "malformed_request",
    "not_found",
    "invalid_command",
    "tenant_not_active",
    "key_shredded",
)


def read(
    operation_id: str,
    summary: str,
    schema: str,
    path_ids: tuple[str, ...] = (),
    *,
    scopes: tuple[str, ...] = (STAFF, MEMBER_ADMIN),
    parameters: tuple[Json, ...] = (),
    media: str = elements.JSON,
    refusals: tuple[str, ...] = (),
    accepted: Json | None = None,
) -> Json:
    """One GET. ``accepted``: what it answers while what is asked for is being made."""
    answer = {"200": elements.answer(summary, media, schema)} | ({"202": accepted} if accepted else {})
    return {
        "get": {
            "operationId": operation_id,
            "summary": summary,
            "tags": ["tenancy"],
            "security": [{"bearer": [scope]} for scope in scopes],
            "parameters": [*map(elements.object_id, path_ids), *parameters],
            "responses": answer | elements.refusals((*_REFUSED, *refusals)),
        }
    }


def committed(result: Json) -> Json:
    """The answer to a command."""
    return a_schema({"result": result, "event": _OBJECT})


_PAGE: Final = (elements.limit(), elements.CURSOR)
_PLACEMENT: Final = a_schema(
    {
        "placement_id": OBJECT_ID,
        "region": STRING,
        "mode": STRING,
        "shard_or_database": STRING,
        "generation": INTEGER,
    }
)
_TENANT: Final = a_schema(
    {
        "tenant_id": OBJECT_ID,
        "name": STRING,
        "tier": STRING,
        "state": STRING,
        "suspension": TEXT_OR_NULL,
        "reason": TEXT_OR_NULL,
        "timezone": STRING,
        "home_currency": STRING,
        "quotas": _OBJECT,
        "prices": _OBJECT,
        "placement_id": OBJECT_ID,
        "placement": _PLACEMENT,
        "key_ref": STRING,
        "policy_version": INTEGER,
        "version": INTEGER,
        "certificate_id": TEXT_OR_NULL,
        "created_at": STRING,
        "updated_at": STRING,
    }
)
_EXPORT: Final = ("tenant_id", "export_id")
_MIGRATION: Final = a_schema(
    dict.fromkeys(("migration_id", "tenant_id", "state", "source", "target", "created_at", "updated_at"), STRING)
    | dict.fromkeys(("from_generation", "rows_per_second", "rows_copied", "rows_verified", "mismatches"), INTEGER)
    | {
        "to_generation": INTEGER_OR_NULL,
        "dual_reads": a_schema(dict.fromkeys(_COUNTS_OF_READS, INTEGER)),
        "reason": TEXT_OR_NULL,
        "version": INTEGER,
    }
)
_MOVE: Final = a_schema(
    _MIGRATION["properties"]
    | {"fenced": {"type": "boolean"}, "resources": INTEGER, "served_reads": INTEGER}
    | dict.fromkeys(("source_digest", "target_digest"), TEXT_OR_NULL)
)
_ROOM: Final = a_schema(
    {"store": STRING, "mode": STRING, "state": {"enum": PLACEMENT_STATES}}
    | {"tenants": INTEGER, "tenants_max": INTEGER, "bytes": INTEGER_OR_NULL, "bytes_max": INTEGER_OR_NULL}
    | {"measured_at": TEXT_OR_NULL, "moving": INTEGER, "soaking": INTEGER}
)
_RESEALING: Final = a_schema(
    {"key_version": INTEGER, "state": {"enum": ["running", "done"]}, "looked_at": INTEGER, "resealed": INTEGER}
    | {"resources": INTEGER, "updated_at": STRING}
)
_RESOURCE: Final = a_schema({"tenant_id": OBJECT_ID, "resource_id": OBJECT_ID, "version": INTEGER, "payload": _OBJECT})
_CHANGE: Final = {
    "version": INTEGER,
    "at": STRING,
    "by": STRING,
    "person": TEXT_OR_NULL,
    "operation": TEXT_OR_NULL,
    "request_id": TEXT_OR_NULL,
    "changed": {"type": "object", "additionalProperties": a_schema({"from": {}, "to": {}})},
}
_WARNED: Final = {"feature": STRING, "dimension": STRING, "limit": INTEGER, "used": INTEGER}
_WARNINGS: Final = array_of(a_schema(_WARNED))  # of soft limits that what was made goes beyond; not there without


def paths() -> Json:
    """Reads of tenants."""
    return {
        "/v1/tenants": read("list_tenants", "Tenants, newest first", "TenantPage", scopes=(STAFF,), parameters=_PAGE),
        "/v1/placements": read("list_placements", "Where tenants may be placed", "Placements", scopes=(STAFF,)),
        "/v1/placements/{store}/drain": {"post": _stands("drain", "Move its tenants away", "PlacementDrain")},
        "/v1/placements/{store}/activate": {"post": _stands("activate", "Let tenants come again", "PlacementNote")},
        "/v1/tenants/{tenant_id}": read("get_tenant", "A tenant", "Tenant", ("tenant_id",)),
        "/v1/tenants/{tenant_id}/keys": read("list_keys", "Versions of its key", "TenantKeys", ("tenant_id",)),
        "/v1/tenants/{tenant_id}/quotas": read(
            "list_tenant_quotas", "Its limits, and what it uses", "Quotas", ("tenant_id",)
        ),
        "/v1/tenants/{tenant_id}/history": read(
            "list_tenant_history", "Who changed what of it", "TenantHistoryPage", ("tenant_id",), parameters=_PAGE
        ),
        "/v1/tenants/{tenant_id}/exports": read(
            "list_tenant_exports", "Exports, newest first", "TenantExportPage", ("tenant_id",), parameters=_PAGE
        ),
        "/v1/tenants/{tenant_id}/exports/{export_id}": read("get_tenant_export", "An export", "TenantExport", _EXPORT),
        "/v1/tenants/{tenant_id}/exports/{export_id}/content": read(
            "get_tenant_export_content",
            "The resources, a line each",
            "NdjsonText",
            _EXPORT,
            media="application/x-ndjson",
        ),
        "/v1/tenants/{tenant_id}/certificates/{certificate_id}": read(
            "get_certificate", "A signed certificate", "Certificate", ("tenant_id", "certificate_id")
        ),
        "/v1/tenants/{tenant_id}/migrations": read(
            "list_migrations", "Moves, newest first", "MigrationPage", ("tenant_id",), parameters=_PAGE
        ),
        "/v1/tenants/{tenant_id}/migrations/{migration_id}": read(
            "get_migration", "A move", "Migration", ("tenant_id", "migration_id")
        ),
        "/.well-known/certificate-keys.json": read("certificate_keys", "Public keys", "JwkSet", scopes=()),
        "/v1/resources": read(
            "list_resources", "Resources, newest first", "ResourcePage", scopes=(READ,), parameters=_PAGE
        ),
        "/v1/resources/{resource_id}": read(
            "get_resource", "A resource", "TenantResource", ("resource_id",), scopes=(READ,)
        ),
        "/v1/quotas": read("list_quotas", "Limits, and what is used", "Quotas", scopes=(READ,)),
    }


def _stands(verb: str, summary: str, said: str) -> Json:
    codes = ("state_conflict", "not_found", "too_large", "unsupported_media_type", "invalid_command")
    return {
        "operationId": f"{verb}_placement",
        "summary": summary,
        **by_operators(f"placement.{verb}"),
        "parameters": [elements.object_id("store")],
        "requestBody": {"required": True, "content": {elements.JSON: {"schema": ref(said)}}},
        "responses": {
            "200": elements.answer("The store as it is now", elements.JSON, "PlacementDecided"),
            **elements.refusals((*elements.COMMON, *codes)),
        },
    }


def components() -> Json:
    """Schemas of tenants, resources and what commands answer."""
    deletion = a_schema({"resource_id": OBJECT_ID, "version": INTEGER, "deleted": {"type": "boolean"}})
    export = a_schema(
        {"export_id": OBJECT_ID, "tenant_id": OBJECT_ID, "state": STRING, "resources": INTEGER}
        | {"sha256": TEXT_OR_NULL, "created_at": STRING}
    )
    key = a_schema({"tenant_id": OBJECT_ID, "key_version": INTEGER, "version": INTEGER})
    note = {"note": ACTIVATE["note"].type.json}
    soak = {"soak_s": DRAIN["soak_s"].type.json | INTEGER_OR_NULL}
    key_state = {"enum": ["active", "decrypt_only", "destroyed"]}
    quota = a_schema({"dimension": STRING, "limit": INTEGER_OR_NULL, "used": INTEGER_OR_NULL})
    return {
        "Tenant": _TENANT,
        "TenantPage": page_of(ref("Tenant")),
        "Placements": list_of(_ROOM),
        "PlacementDrain": a_schema(note | soak, ["note"], closed=True),
        "PlacementNote": a_schema(note, closed=True),
        "PlacementDecided": a_schema({"result": _ROOM}),
        "TenantResource": _RESOURCE,
        "ResourcePage": page_of(ref("TenantResource")),
        "TenantKeys": a_schema(
            {"data": array_of(a_schema({"key_version": INTEGER, "state": key_state, "retired_at": TEXT_OR_NULL}))}
            | {"certificate_id": TEXT_OR_NULL, "resealing": {"anyOf": [_RESEALING, {"type": "null"}]}}
        ),
        "Quotas": list_of(quota),
        "CommittedTenant": committed(_TENANT),
        "CommittedResource": committed(_RESOURCE | {"properties": _RESOURCE["properties"] | {"warnings": _WARNINGS}}),
        "CommittedDeletion": committed(deletion),
        "CommittedTenantExport": committed(export),
        "CommittedKey": committed(key),
        "CommittedMigration": committed(_MIGRATION),
        "TenantExport": export,
        "TenantExportPage": page_of(ref("TenantExport")),
        "TenantHistoryPage": page_of(a_schema(_CHANGE)),
        "NdjsonText": STRING,
        "Certificate": a_schema(
            {
                "certificate_id": OBJECT_ID,
                "kind": STRING,
                "tenant_id": OBJECT_ID,
                "issued_at": STRING,
                "stores": array_of(a_schema({"store": STRING, "proof": STRING})),
            }
            | {"jws": STRING}
        ),
        "Migration": _MOVE,
        "MigrationPage": page_of(ref("Migration")),
        "JwkSet": a_schema({"keys": array_of(_OBJECT)}),
    }
