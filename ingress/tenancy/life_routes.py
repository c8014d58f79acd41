"""What hangs on a tenant: its exports, its certificates, its moves. Read by staff, and by its own administrators."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ingress.commands import calling
from ingress.http.cursors import Cursors
from ingress.http.pages import BEFORE_ALL
from ingress.http.parts import Parts, parts_of
from ingress.http.streams import begun
from ingress.tenancy import callers
from ingress.tenancy.safe_mode import SafeMode
from ingress.tenancy.tenants import Known, Tenants
from schemas import errors
from schemas.tenancy.rendering import export_document, history_document, move_document
from sinks.certificates import CertificateKeys

if TYPE_CHECKING:
    from ingress.http.store import Store
    from ingress.identity.caller import Caller

router: Final = APIRouter()
_NDJSON: Final = "application/x-ndjson"
_AFTER_ALL: Final = 2**63 - 1  # no version is as great


class Lives:
    """Reads of one process."""

    def __init__(self, store: Store, tenants: Tenants, cursors: Cursors) -> None:
        self._store = store
        self._tenants = tenants
        self._cursors = cursors

    async def one(self, query: str, **named: str) -> dict[str, Any]:
        """One record. Raises NotFound."""
        rows = await self._store.records(query, named)
        if not rows:
            raise errors.NotFound
        return rows[0]

    async def certificate_keys(self) -> list[dict[str, Any]]:
        """All that the database knows."""
        return [key for (key,) in await self._store.rows("certificate_keys", {})]

    async def moves(self, tenant_id: str, limit: int, cursor: str | None) -> dict[str, Any]:
        """A page of the tenant's moves."""
        return await self._page("migrations", "migration_id", move_document, tenant_id, limit, cursor)

    async def exports(self, tenant_id: str, limit: int, cursor: str | None) -> dict[str, Any]:
        """A page of the tenant's exports."""
        return await self._page("exports", "export_id", export_document, tenant_id, limit, cursor)

    async def history(self, tenant_id: str, limit: int, cursor: str | None) -> dict[str, Any]:
        """A page of what was changed of the tenant."""
        before = self._cursors.read(tenant_id, "history", cursor, int) if cursor else _AFTER_ALL
        asked = {"tenant_id": tenant_id, "version": before, "limit": limit + 1}
        found = await self._store.records("tenant_history_newest", asked)
        has_more, found = len(found) > limit, found[:limit]
        following = self._cursors.write(tenant_id, "history", found[-1]["version"]) if has_more else None
        return {"data": [history_document(one) for one in found], "has_more": has_more, "next_cursor": following}

    async def _page(
        self,
        name: str,
        id_name: str,
        document: Callable[[dict[str, Any]], dict[str, Any]],
        tenant_id: str,
        limit: int,
        cursor: str | None,
    ) -> dict[str, Any]:
        place = self._cursors.read(tenant_id, name, cursor, tuple[int, str]) if cursor else BEFORE_ALL
        asked = {"tenant_id": tenant_id, "created_at": place[0], "id": place[1], "limit": limit + 1}
        found = await self._store.records(f"tenant_{name}_newest", asked)
        has_more, found = len(found) > limit, found[:limit]
        last = (found[-1]["created_at"], found[-1][id_name]) if has_more else None
        following = self._cursors.write(tenant_id, name, last) if last else None
        return {"data": [document(one) for one in found], "has_more": has_more, "next_cursor": following}

    async def parts(self, export: dict[str, Any], shown: Callable[[], Awaitable[Known]]) -> AsyncIterator[bytes]:
        """The lines of an export, part after part, each only while ``shown`` tells its tenant, and by the keys of then.

        Raises as ``shown`` does, KeyShredded, and NotFound when they end and are not all: it was deleted.
        """
        digest, named = hashlib.sha256(), {"tenant_id": export["tenant_id"], "export_id": export["export_id"]}
        for part in itertools.count():
            rows = await self._store.rows("tenant_export_part", named | {"part": part})
            if not rows:
                break
            place = f"{export['export_id']}:{part}"
            text = self._tenants.open(await shown(), "exports", place, bytes(rows[0][0]))
            digest.update(text)
            yield text
        if digest.hexdigest() != export["sha256"]:
            raise errors.NotFound


@router.get("/v1/tenants/{tenant_id}/history")
async def list_history(request: Request, tenant_id: str) -> Response:
    """What was changed of the tenant, by whom and when, newest first."""
    _, known = await callers.of_tenant(request, tenant_id)
    lives = parts_of(request).get(Lives)
    return calling.json(await lives.history(known.tenant.tenant_id, *calling.place(request)))


@router.get("/v1/tenants/{tenant_id}/exports")
async def list_exports(request: Request, tenant_id: str) -> Response:
    """The tenant's exports, newest first."""
    _, known = await callers.of_tenant(request, tenant_id)
    lives = parts_of(request).get(Lives)
    return calling.json(await lives.exports(known.tenant.tenant_id, *calling.place(request)))


@router.get("/v1/tenants/{tenant_id}/exports/{export_id}")
async def get_export(request: Request, tenant_id: str, export_id: str) -> Response:
    """An export, and whether it is ready."""
    _, found = await _one(request, tenant_id, "tenant_exports_by_id", export_id=export_id)
    return calling.json(export_document(found))


@router.get("/v1/tenants/{tenant_id}/exports/{export_id}/content")
async def get_export_content(request: Request, tenant_id: str, export_id: str) -> Response:
    """The resources, a line each, in the order of their ids."""
    caller, found = await _one(request, tenant_id, "tenant_exports_by_id", export_id=export_id)
    shown = partial(_shown_whole, parts_of(request), caller, tenant_id)
    if (await shown()).is_shredded:
        raise errors.KeyShredded
    if found["state"] != "ready":
        raise errors.StateConflict("The export is not ready yet.", found["state"])
    lines = await begun(parts_of(request).get(Lives).parts(found, shown))
    return StreamingResponse(lines, headers=calling.NO_STORE, media_type=_NDJSON)


@router.get("/v1/tenants/{tenant_id}/certificates/{certificate_id}")
async def get_certificate(request: Request, tenant_id: str, certificate_id: str) -> Response:
    """A certificate of what was destroyed, with its signature."""
    _, found = await _one(request, tenant_id, "tenant_certificates_by_id", certificate_id=certificate_id)
    return calling.json(msgspec.json.decode(found["document"]) | {"jws": found["jws"]})


@router.get("/v1/tenants/{tenant_id}/migrations")
async def list_migrations(request: Request, tenant_id: str) -> Response:
    """The tenant's moves, newest first."""
    _, known = await callers.of_tenant(request, tenant_id)
    lives = parts_of(request).get(Lives)
    return calling.json(await lives.moves(known.tenant.tenant_id, *calling.place(request)))


@router.get("/v1/tenants/{tenant_id}/migrations/{migration_id}")
async def get_migration(request: Request, tenant_id: str, migration_id: str) -> Response:
    """One move, and how far it is."""
    _, found = await _one(request, tenant_id, "tenant_migrations_by_id", migration_id=migration_id)
    return calling.json(move_document(found))


@router.get("/.well-known/certificate-keys.json")
async def certificate_keys(request: Request) -> Response:
    """The public keys that certificates are verified with, also those whose private half is gone."""
    known = await parts_of(request).get(Lives).certificate_keys()
    return calling.json(parts_of(request).get(CertificateKeys).public(known))


async def _shown_whole(parts: Parts, caller: Caller, tenant_id: str) -> Known:
    """The tenant of now, while this caller may be shown all that it has: a download takes as long as its reader likes.

    Raises SafeMode (for staff, too; not for the monitor's own tenants), TenantNotActive, NotFound, Unavailable.
    """
    is_member, tenants = callers.is_member(caller), parts.get(Tenants)
    await parts.get(SafeMode).require_off(tenant_id if is_member else "")
    return await (tenants.active(caller) if is_member else tenants.get(tenant_id))


async def _one(request: Request, tenant_id: str, query: str, **named: str) -> tuple[Caller, dict[str, Any]]:
    """Who asks, and what the tenant has under an id. Raises as ``callers.of_tenant``, and NotFound."""
    caller, known = await callers.of_tenant(request, tenant_id)
    for each in named.values():
        calling.require_id(each)
    return caller, await parts_of(request).get(Lives).one(query, tenant_id=known.tenant.tenant_id, **named)
