"""Billing runs, billing entries, entitlements: read by staff, and by the tenant that is billed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.http.parts import parts_of
from ingress.tenancy.billing.entitlements import Entitlements
from ingress.tenancy.billing.invoices import Billing
from ingress.tenancy.callers import member, of_tenant
from schemas import errors
from schemas.tenancy.entitlements import is_feature
from schemas.tenancy.operations import READ

if TYPE_CHECKING:
    from ingress.tenancy.tenants import Known

router: Final = APIRouter()


@router.get("/v1/tenants/{tenant_id}/billing_runs/{billing_run_id}")
async def get_run(request: Request, tenant_id: str, billing_run_id: str) -> Response:
    """One run, and its invoice once that stands."""
    await of_tenant(request, tenant_id)
    calling.require_id(billing_run_id)
    return calling.json(await parts_of(request).get(Billing).run(tenant_id, billing_run_id))


@router.get("/v1/tenants/{tenant_id}/billing_runs")
async def list_runs(request: Request, tenant_id: str) -> Response:
    """The runs of a tenant, newest first."""
    await of_tenant(request, tenant_id)
    return calling.json(await parts_of(request).get(Billing).runs(tenant_id, *calling.place(request)))


@router.get("/v1/tenants/{tenant_id}/billing_entries")
async def list_entries(request: Request, tenant_id: str) -> Response:
    """Corrections and credit of a tenant, newest first."""
    await of_tenant(request, tenant_id)
    return calling.json(await parts_of(request).get(Billing).entries(tenant_id, *calling.place(request)))


@router.get("/v1/tenants/{tenant_id}/entitlements")
async def get_entitlements(request: Request, tenant_id: str) -> Response:
    """What a tenant may now."""
    _, known = await of_tenant(request, tenant_id)
    return await _entitlements(request, known)


@router.get("/v1/entitlements")
async def own_entitlements(request: Request) -> Response:
    """What the caller's own tenant may now."""
    _, known = await member(request, READ)
    return await _entitlements(request, known)


@router.get("/v1/entitlements/{feature}")
async def require_entitlement(request: Request, feature: str) -> Response:
    """Whether the caller's own tenant may now: for who offers the feature. What it may not is refused."""
    _, known = await member(request, READ)
    if not is_feature(feature):
        raise errors.NotFound
    tenant = known.tenant
    found = await parts_of(request).get(Entitlements).require(tenant.tenant_id, tenant.timezone, feature)
    return calling.json(found, calling.NO_STORE)


async def _entitlements(request: Request, known: Known) -> Response:
    tenant = known.tenant
    found, version = await parts_of(request).get(Entitlements).of(tenant.tenant_id, tenant.timezone)
    return calling.json(found, calling.NO_STORE | {"ETag": f'"{version}"'})
