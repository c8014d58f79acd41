"""Who may ask about a tenant: its own members, and staff. Another tenant's is as one that never was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingress.commands import calling
from ingress.http.parts import parts_of
from ingress.tenancy.tenants import Known, Tenants
from schemas import errors
from schemas.senders import TENANT, USER, kind_of
from schemas.tenancy.operations import MEMBER_ADMIN, STAFF, TENANT_SCOPE

if TYPE_CHECKING:
    from starlette.requests import Request

    from ingress.identity.caller import Caller

_OUTSIDERS: Final = frozenset({TENANT, USER})


def is_member(caller: Caller) -> bool:
    """Whether the caller acts for a tenant; else it is staff."""
    return caller.principal.startswith(TENANT_SCOPE)


def require_staff(caller: Caller, *scopes: str) -> None:
    """Raises Forbidden unless this is staff with one of the scopes. A tenant's token is never staff's, nor a user's."""
    caller.require(*scopes)
    if (kind := kind_of(caller.principal)) in _OUTSIDERS:
        raise errors.Forbidden(f"This is for staff; the token is a {kind}'s.")


async def member(request: Request, scope: str, *, writes: bool = False, shows: bool = True) -> tuple[Caller, Known]:
    """A caller with this scope, and its own tenant, which is served. Raises as ``Tenants.active``."""
    caller = await calling.caller_of(request, scope)
    return caller, await parts_of(request).get(Tenants).active(caller, writes=writes, shows=shows)


async def of_tenant(request: Request, tenant_id: str, *staff_scopes: str) -> tuple[Caller, Known]:
    """A caller that may read about this tenant: staff, or its own member with ``tenant:admin``. Raises NotFound."""
    caller = await calling.caller_of(request, MEMBER_ADMIN, STAFF, *staff_scopes)
    calling.require_id(tenant_id)
    tenants = parts_of(request).get(Tenants)
    if not is_member(caller):
        require_staff(caller, STAFF, *staff_scopes)
        return caller, await tenants.get(tenant_id, fresh=True)
    caller.require(MEMBER_ADMIN)
    own = await tenants.active(caller)
    if own.tenant.tenant_id != tenant_id:
        raise errors.NotFound
    return caller, await tenants.get(tenant_id, fresh=True)
