"""Support access: who asks, approves, consents and ends it is the subject of a token; what was done with it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ingress.commands import calling, envelope, envelope_fields
from ingress.commands.commands import Commands
from ingress.http import answers
from ingress.http.parts import parts_of
from ingress.http.requests import reading
from ingress.operators import operating
from ingress.tenancy.callers import is_member, member, of_tenant, require_staff
from ingress.tenancy.support.access import SupportAccess, shown
from schemas import errors
from schemas.tenancy.desk_operations import (
    APPROVE,
    DESK,
    REQUEST_SUPPORT_GRANT,
    STAFF,
    SUPPORT,
    TENANT_ADMIN,
)

if TYPE_CHECKING:
    from ingress.identity.caller import Caller

router: Final = APIRouter()
_GRANTS: Final = "/v1/tenants/{tenant_id}/support_grants"
_GRANT: Final = f"{_GRANTS}/{{grant_id}}"


@router.post(_GRANTS)
async def request_grant(request: Request, tenant_id: str) -> Response:
    """Asks for access, with a reason."""
    raw = await calling.without_tenant(request, SUPPORT)
    caller = await _staff(request, tenant_id, SUPPORT)
    return await _carry_out(request, caller, REQUEST_SUPPORT_GRANT, tenant_id, {}, raw)


@router.post(f"{_GRANT}/approve")
async def approve(request: Request, tenant_id: str, grant_id: str) -> Response:
    """Another person allows it."""
    return await _of_staff(request, "approve_support_grant", tenant_id, grant_id)


@router.post(f"{_GRANT}/deny")
async def deny(request: Request, tenant_id: str, grant_id: str) -> Response:
    """Or refuses."""
    return await _of_staff(request, "deny_support_grant", tenant_id, grant_id)


@router.post(f"{_GRANT}/consent")
async def consent(request: Request, tenant_id: str, grant_id: str) -> Response:
    """The tenant allows it, too: a member of it, and nobody else."""
    raw = await calling.without_tenant(request, TENANT_ADMIN, STAFF)
    caller, _ = await of_tenant(request, tenant_id)
    if not is_member(caller):
        raise errors.Forbidden("Only the tenant itself can consent.")
    return await _carry_out(request, caller, "consent_support_grant", tenant_id, {"grant_id": grant_id}, raw)


@router.post(f"{_GRANT}/revoke")
async def revoke(request: Request, tenant_id: str, grant_id: str) -> Response:
    """Anybody of either side ends it."""
    raw = await calling.without_tenant(request, TENANT_ADMIN, STAFF, SUPPORT, APPROVE)
    caller, _ = await of_tenant(request, tenant_id, SUPPORT, APPROVE)
    return await _carry_out(request, caller, "revoke_support_grant", tenant_id, {"grant_id": grant_id}, raw)


@router.post(f"{_GRANT}/review")
async def review(request: Request, tenant_id: str, grant_id: str) -> Response:
    """Another person says what it was used for, when it is over."""
    return await _of_staff(request, "review_support_grant", tenant_id, grant_id)


@router.post(f"{_GRANT}/token")
async def token(request: Request, tenant_id: str, grant_id: str) -> Response:
    """What its requester shows while it is active."""
    await calling.without_tenant(request, SUPPORT, APPROVE)
    caller = await _staff(request, tenant_id, SUPPORT, APPROVE)
    calling.require_id(grant_id)
    access = parts_of(request).get(SupportAccess)
    made = access.token(await access.grant(tenant_id, grant_id), operating.person(caller))
    return calling.json(made, status=201)


@router.get(_GRANT)
async def get_grant(request: Request, tenant_id: str, grant_id: str) -> Response:
    """One grant, for both sides."""
    await of_tenant(request, tenant_id, SUPPORT, APPROVE)
    calling.require_id(grant_id)
    found = await parts_of(request).get(SupportAccess).grant(tenant_id, grant_id)
    return calling.json(shown(found), calling.NO_STORE | {"ETag": f'"{found.version}"'})


@router.get(_GRANTS)
async def list_grants(request: Request, tenant_id: str) -> Response:
    """A tenant's grants, newest first."""
    await of_tenant(request, tenant_id, SUPPORT, APPROVE)
    return calling.json(await parts_of(request).get(SupportAccess).grants(tenant_id, *calling.place(request)))


@router.get("/v1/audit")
async def audit(request: Request) -> Response:
    """What support did at the caller's own tenant."""
    caller, _ = await member(request, TENANT_ADMIN)
    grant_id = reading.identity(request, "grant_id")
    limit, cursor = calling.place(request)
    return calling.json(await parts_of(request).get(SupportAccess).calls(caller.tenant, grant_id, limit, cursor))


async def _of_staff(request: Request, operation: str, tenant_id: str, grant_id: str) -> Response:
    raw = await calling.without_tenant(request, APPROVE)
    caller = await _staff(request, tenant_id, APPROVE)
    return await _carry_out(request, caller, operation, tenant_id, {"grant_id": grant_id}, raw)


async def _staff(request: Request, tenant_id: str, *scopes: str) -> Caller:
    """Staff with one of the scopes. Raises Forbidden, also for a member of the tenant."""
    caller = await calling.caller_of(request, *scopes)
    require_staff(caller, *scopes)
    calling.require_id(tenant_id)
    return caller


async def _carry_out(
    request: Request, caller: Caller, name: str, tenant_id: str, said_by_route: dict[str, Any], raw: bytes
) -> Response:
    """One command, in the name of the person that the token names."""
    for id_ in said_by_route.values():
        calling.require_id(id_)
    fields = envelope_fields.header_fields(request.headers)
    asked_terms, asked = calling.terms(request)
    said = {"person": operating.person(caller), **said_by_route}
    call = envelope.read_call(DESK[name], tenant_id, raw, fields, caller.principal, said)
    answer, request_id = await parts_of(request).get(Commands).one(caller, call, asked_terms)
    return answers.response(answer, asked.applied(), request_id)
