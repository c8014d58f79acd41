"""Tenants: read by staff, and each by its own administrators. What changes them are commands."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.http.pages import NewestFirst
from ingress.http.parts import parts_of
from ingress.tenancy import callers
from ingress.tenancy.quotas import Quotas
from ingress.tenancy.tenants import Tenant, rendered
from schemas.tenancy.operations import STAFF

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
    data = [{"key_version": key.key_version, "state": key.state} for key in known.keys]
    return calling.json({"data": data, "certificate_id": known.shred_certificate_id})


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
