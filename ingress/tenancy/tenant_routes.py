"""Tenants: read by staff, and each by its own administrators. What changes them are commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.http.pages import NewestFirst
from ingress.http.parts import parts_of
from ingress.tenancy import callers
from ingress.tenancy.quotas import Quotas
from ingress.tenancy.tenants import Tenant, Tenants, rendered
from schemas.tenancy.instants import instant
from schemas.tenancy.operations import STAFF

if TYPE_CHECKING:
    from collections.abc import Sequence

router: Final = APIRouter()


@router.get("/v1/tenants")
async def list_tenants(request: Request) -> Response:
    """All tenants, newest first; for staff."""
    caller = await calling.caller_of(request, STAFF)
    callers.require_staff(caller, STAFF)
    found = (
        await parts_of(request)
        .get(NewestFirst)
        .page(
            "tenants_newest",
            "tenants",
            caller.principal,
            {},
            *calling.place(request),
            lambda row: Tenant(**dict(zip(Tenant.__struct_fields__, row, strict=True))),
            lambda tenant: (tenant.created_at, tenant.tenant_id),
            rendered,
        )
    )
    return calling.json(found)


@router.get("/v1/tenants/{tenant_id}/keys")
async def list_keys(request: Request, tenant_id: str) -> Response:
    """The versions of a tenant's key, and the certificate of their destruction."""
    _, known = await callers.of_tenant(request, tenant_id)
    rows = await parts_of(request).get(Tenants).keys_shown(known.tenant.tenant_id)
    return calling.json(keys_document(rows) | {"certificate_id": known.shred_certificate_id})


def keys_document(rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """The versions of a key, and how far what lies under older ones is sealed anew; null where it never was."""
    data = [{"key_version": row[0], "state": row[1], "retired_at": _instant(row[2])} for row in rows]
    if not rows or rows[0][3] is None:
        return {"data": data, "resealing": None}
    newest, looked_at, resealed, resources, updated_at, finished_at = rows[0][3:]
    told = {"key_version": newest, "state": "running" if finished_at is None else "done", "looked_at": looked_at}
    told |= {"resealed": resealed, "resources": resources, "updated_at": _instant(updated_at)}
    return {"data": data, "resealing": told}


def _instant(at: int | None) -> str | None:
    return None if at is None else instant(at)


@router.get("/v1/tenants/{tenant_id}/quotas")
async def list_quotas_of(request: Request, tenant_id: str) -> Response:
    """What a tenant may use, and uses, as ``GET /v1/quotas`` tells the tenant itself."""
    _, known = await callers.of_tenant(request, tenant_id)
    return calling.json(await parts_of(request).get(Quotas).of(known.tenant))


@router.get("/v1/tenants/{tenant_id}")
async def get_tenant(request: Request, tenant_id: str) -> Response:
    """One tenant."""
    _, known = await callers.of_tenant(request, tenant_id)
    return calling.json(rendered(known.tenant), calling.NO_STORE | {"ETag": f'"{known.tenant.version}"'})
