"""Who may ask at the desk of a tenant: staff with a scope, or the tenant itself. Another tenant's desk is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingress.commands import calling
from ingress.http.parts import parts_of
from ingress.identity.auth import Authenticator
from schemas import errors
from schemas.tenancy.desk_operations import TENANT_ADMIN

if TYPE_CHECKING:
    from starlette.requests import Request

    from ingress.identity.auth import Caller

_OF_TENANT = "tenant:"


async def at_desk(
    request: Request, tenant_id: str, *staff_scopes: str, own_scopes: tuple[str, ...] = (TENANT_ADMIN,)
) -> Caller:
    """The caller, who may ask there. Raises Unauthenticated, Forbidden, or NotFound for another tenant's."""
    caller = await parts_of(request).get(Authenticator).caller(request.headers.get("authorization"))
    if caller.principal.startswith(_OF_TENANT):
        caller.require(*own_scopes)
        if caller.tenant != tenant_id:
            raise errors.NotFound
    else:
        caller.require(*staff_scopes)
    calling.require_id(tenant_id)
    return caller
