"""Support access as it is read, and the tokens that support shows: short, of one tenant, and under one grant."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from dataflows.tenancy.domain.support_grant import SupportGrant, of_row, rendered
from ingress.http.pages import NewestFirst
from ingress.identity.issuer import KeyFolder, issue_token
from ingress.identity.signed_token import claims_said
from ingress.trust import SUPPORT_ISSUER
from schemas import errors
from schemas.tenancy import limits
from schemas.tenancy.instants import instant

if TYPE_CHECKING:
    from pathlib import Path

    from ingress.http.cursors import Cursors
    from ingress.http.pages import Place
    from ingress.http.store import Store

_SECOND_US: Final = 1_000_000


class SupportAccess:
    """Reads of one process, and its issuer."""

    def __init__(self, store: Store, cursors: Cursors, issuer: Path | None) -> None:
        self._store = store
        self._pages = NewestFirst(store, cursors)
        self._issuer = None if issuer is None else KeyFolder(issuer)

    async def grant(self, tenant_id: str, grant_id: str) -> SupportGrant:
        """One of the tenant's. Raises NotFound."""
        rows = await self._store.rows("support_grant_by_id", {"tenant": tenant_id, "id": grant_id})
        if not rows:
            raise errors.NotFound
        return of_row(rows[0])

    async def grants(self, tenant_id: str, limit: int, cursor: str | None) -> dict[str, Any]:
        """One page of the tenant's, newest first."""
        now = time.time_ns() // 1_000
        name = "support_grants"
        return await self._pages.page(
            "support_grants_of_tenant", name, tenant_id, {}, limit, cursor, of_row, _place, lambda g: rendered(g, now)
        )

    async def calls(self, tenant_id: str, grant_id: str | None, limit: int, cursor: str | None) -> dict[str, Any]:
        """One page of the calls that support made at the tenant, newest first."""
        filters = {"grant_id": grant_id}
        return await self._pages.page(
            "tenant_audit_page", "tenant_audit", tenant_id, filters, limit, cursor, tuple, _place_of_call, _call
        )

    def token(self, grant: SupportGrant, person: str) -> dict[str, Any]:
        """A token for who asked for an active grant, and when it ends: with the grant, or before.

        Raises NotFound for anybody else, GrantInactive, Unavailable.
        """
        if person != grant.requester:
            raise errors.NotFound
        now = time.time_ns() // 1_000
        if grant.state_at(now) != "active" or grant.expires_at is None:
            raise errors.GrantInactive
        if self._issuer is None:
            raise errors.Unavailable("There is no issuer of support here.")
        ttl_s = min(limits.SUPPORT_TOKEN_MAX_S, -(-grant.expires_at // _SECOND_US) - now // _SECOND_US)
        further = {"grant_id": grant.grant_id, "act": {"sub": person}}
        named = {"kind": "tenant", "subject": person, "issuer": SUPPORT_ISSUER, "further": further}
        token = issue_token(self._issuer, grant.tenant_id, grant.scopes, ttl_s, **named)  # type: ignore[arg-type] # by name
        ends = min(grant.expires_at, claims_said(token)["exp"] * _SECOND_US)
        return {"object": "support_token", "token": token, "expires_at": instant(ends)}


def shown(grant: SupportGrant) -> dict[str, Any]:
    """The grant as it is now."""
    return rendered(grant, time.time_ns() // 1_000)


def _place(grant: SupportGrant) -> Place:
    return grant.created_at, grant.grant_id


def _place_of_call(row: tuple[Any, ...]) -> Place:
    return row[0], ""


def _call(row: tuple[Any, ...]) -> dict[str, Any]:
    """A call that began and came to no end was answered to nobody: it is told as refused, and as unfinished."""
    seq, at, actor, grant_id, action, object_, result = row
    named = {"seq": seq, "at": instant(at), "actor": actor, "grant_id": grant_id}
    is_unfinished = result == "begun"
    told = {"result": "refused" if is_unfinished else result, "unfinished": is_unfinished}
    return named | {"action": action, "object": object_} | told
