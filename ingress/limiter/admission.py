"""Over whose keys a caller rules: a token that names a tenant over its own only, whatever its scopes are.

If this were wrong, one tenant could throttle another, or lift its limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingress.commands.admission import Admission
from ingress.identity.issuer import STAFF_KIND
from ingress.identity.roles import OPERATOR, PLATFORM
from schemas import errors
from schemas.limiter.limit_policy import ANY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingress.commands.envelope import Request
    from ingress.identity.caller import Caller


class Reach(Admission):
    """Refuses policies for others' tenants, and for all of them at once.

    ``merchants_are_bound``: merchants' tokens, too, are for the tenant of their own name. Else a merchant's token with
    ``limits:write`` is one of the platform's own, as in development. Staff of the platform rules over all.
    """

    def __init__(self, *, merchants_are_bound: bool) -> None:
        self._merchants_are_bound = merchants_are_bound

    async def refusals(self, caller: Caller, requests: Sequence[Request]) -> list[errors.PlatformError | None]:
        """A policy's scope says for which tenant it is; one that is not readable is refused for that."""
        return [self.why_not(caller, _tenant_of(request.payload.get("scope"))) for request in requests]

    def why_not(self, caller: Caller, tenant: str | None) -> errors.PlatformError | None:
        """Why the caller may not rule over this tenant's keys, or see them; None where it may."""
        kind, colon, name = caller.principal.partition(":")
        if colon and kind == "user":
            return errors.Forbidden("The token names no tenant and no merchant.")
        if kind == STAFF_KIND:
            is_bound = caller.scopes.isdisjoint((OPERATOR, PLATFORM))
        else:
            is_bound = bool(colon) or self._merchants_are_bound
        if not is_bound or tenant is None or tenant in (caller.principal, name if colon else kind):
            return None
        return errors.Forbidden("The token is for keys of its own tenant only.")

    def why_no_snapshot(self, caller: Caller) -> errors.PlatformError | None:
        """Why the caller may not read a policy snapshot; None where it may.

        Rule: one holds the policies of all tenants, and its signature is over all of them: it is read whole or not at
        all, by our own processes and by who rules over every tenant.
        """
        return None if caller.is_service else self.why_not(caller, ANY)


def _tenant_of(scope: object) -> str | None:
    tenant = scope.get("tenant") if isinstance(scope, dict) else None
    return tenant if isinstance(tenant, str) else None
