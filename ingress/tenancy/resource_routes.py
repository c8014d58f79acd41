"""Resources and quotas: read by members of their tenant alone."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling
from ingress.http.parts import parts_of
from ingress.tenancy import callers
from ingress.tenancy.quotas import Quotas
from ingress.tenancy.resources import Resources
from schemas.tenancy.operations import READ

router: Final = APIRouter()


@router.get("/v1/resources")
async def list_resources(request: Request) -> Response:
    """The tenant's live resources, newest first."""
    _, known = await callers.member(request, READ)
    return calling.json(await parts_of(request).get(Resources).page(known, *calling.place(request)))


@router.get("/v1/resources/{resource_id}")
async def get_resource(request: Request, resource_id: str) -> Response:
    """One live resource."""
    _, known = await callers.member(request, READ)
    calling.require_id(resource_id)
    found = await parts_of(request).get(Resources).get(known, resource_id)
    return calling.json(found, calling.NO_STORE | {"ETag": f'"{found["version"]}"'})


@router.get("/v1/quotas")
async def list_quotas(request: Request) -> Response:
    """What the tenant may use, and what it uses."""
    _, known = await callers.member(request, READ)
    return calling.json(await parts_of(request).get(Quotas).of(known.tenant))
