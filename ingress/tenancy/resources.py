"""Resources as their tenant reads them: the head says the version, a store or the feed on its way has the payload.

One of the pool is read with its head in one statement; all others are looked for after their heads.

A read that meets a placement on the move, or a policy that changed since the tenant was looked at, looks at it again
and is decided again. It never gives an older version than the head that it saw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import psycopg

from ingress import limits as ingress_limits
from ingress.http.pages import BEFORE_ALL
from ingress.tenancy.dual_reads import DualReads
from ingress.tenancy.stores import is_pooled
from schemas import errors
from schemas.tenancy import limits as tenancy_limits

if TYPE_CHECKING:
    from ingress.http.cursors import Cursors
    from ingress.http.store import Store
    from ingress.tenancy.stores import Row, TenantStores
    from ingress.tenancy.tenants import Known, Tenant, Tenants

_LIST: Final = "resources"
_ONE: Final = "resource_heads_by_id"
_ONE_POOLED: Final = "resource_pooled_by_id"
_HEAD: Final = 5  # columns of both, in front of the row's
Head = tuple[str, int, int, bytes | None]  # resource, version, created at, its image where that is on its way
Document = dict[str, Any]


class Resources:
    """Reads of one process."""

    def __init__(self, store: Store, stores: TenantStores, tenants: Tenants, cursors: Cursors) -> None:
        self._store = store
        self._stores = stores
        self._dual_reads = DualReads(store, stores)
        self._tenants = tenants
        self._cursors = cursors

    async def close(self) -> None:
        """Waits for comparisons under way."""
        await self._dual_reads.close()

    async def get(self, known: Known, resource_id: str) -> Document:
        """One live resource. Raises NotFound, KeyShredded, TenantNotActive, Unavailable."""
        (found, _) = await self._read(known, _ONE, {"resource_id": resource_id})
        if not found:
            raise errors.NotFound
        return found[0]

    async def page(self, known: Known, limit: int, cursor: str | None) -> Document:
        """Live resources, newest first. Raises KeyShredded, MalformedRequest, TenantNotActive, Unavailable."""
        _require_keys(known)
        caller = known.tenant.tenant_id
        place = self._cursors.read(caller, _LIST, cursor, tuple[int, str]) if cursor else BEFORE_ALL
        asked = {"created_at": place[0], "id": place[1], "limit": limit + 1}
        found, heads = await self._read(known, "resource_heads_newest", asked, limit)
        has_more = len(heads) > limit
        last = heads[limit - 1] if has_more else None
        return {
            "data": found,
            "has_more": has_more,
            "next_cursor": self._cursors.write(caller, _LIST, (last[2], last[0])) if last else None,
        }

    async def _read(
        self, known: Known, query: str, asked: Document, at_most: int = ingress_limits.PAGE_LIMIT_MAX
    ) -> tuple[list[Document], list[Head]]:
        """What the heads of a query lead to, and those heads."""
        left, away = tenancy_limits.TENANT_READ_TRIES_MAX, None
        while left:
            left -= 1
            tenant = known.tenant
            parameters = {
                "tenant_id": tenant.tenant_id,
                "placement_id": tenant.placement_id,
                "policy_version": tenant.policy_version,
                **asked,
            }
            found, heads = None, list[Head]()
            try:
                rows, stored = await self._heads(tenant, query, parameters)
                heads = [(i, v, at, image) for _, i, v, at, image in rows if i is not None]
                if rows and rows[0][0]:
                    found = await self._payloads(known, heads[:at_most], stored)
            except psycopg.Error:
                pass  # the placement or the policy has moved on, or the gate is closed for an older generation
            except errors.Unavailable as error:
                away = error
                left = min(left, 1)  # a database that is away, unless the tenant is elsewhere by now
            if found is not None:
                return found, heads
            if not left:
                break
            known = await self._tenants.decided_again(known)
        raise away or errors.Unavailable("The tenant is on the move; try again.", tenant=known.tenant.tenant_id)

    async def _heads(
        self, tenant: Tenant, query: str, parameters: Document
    ) -> tuple[list[tuple[Any, ...]], dict[str, Row] | None]:
        """What a query of heads gives, and what the store has, where one statement reads both: one row of the pool."""
        if query != _ONE or not is_pooled(tenant):
            return await self._store.rows(query, parameters), None
        rows = await self._store.rows(_ONE_POOLED, parameters | {"context": self._stores.context(tenant)})
        stored = {
            id_: (version, bytes(payload), deleted)
            for _, id_, _, _, image, version, payload, deleted in rows
            if image is None and version is not None
        }
        return [row[:_HEAD] for row in rows], stored

    async def _payloads(
        self, known: Known, heads: list[Head], stored_rows: dict[str, Row] | None
    ) -> list[Document] | None:
        """The documents of these heads; None when the store is behind them, or the policy changed meanwhile."""
        rows = stored_rows
        if rows is None:
            rows = await self._stores.rows(known.tenant, [id_ for id_, _, _, image in heads if image is None])
            if rows and not await self._is_decided(known.tenant):
                return None
        found: list[Document] = []
        self._dual_reads.compare(known, rows)
        for id_, version, _, image in heads:
            stored, sealed, deleted = (
                rows.get(id_, (0, b"", False)) if image is None else (version, bytes(image), False)
            )
            if stored < version:
                return None
            if not deleted:
                found.append(self._document(known, id_, stored, sealed))
        return found

    async def _is_decided(self, tenant: Tenant) -> bool:
        """Whether what was just read was read under the policy that it was decided by.

        A database of the tenant's own knows of none, and was asked after the heads: what it gave may have been written
        under a later one. Any other store compares the two in the statement that reads.
        """
        if tenant.mode != "dedicated":
            return True
        asked = {"tenant_id": tenant.tenant_id, "policy_version": tenant.policy_version}
        return await self._store.rows("tenant_policy_holds", asked) == [(True,)]

    def _document(self, known: Known, resource_id: str, version: int, sealed: bytes) -> Document:
        return {
            "tenant_id": known.tenant.tenant_id,
            "resource_id": resource_id,
            "version": version,
            "payload": msgspec.Raw(self._tenants.open(known, "resources", resource_id, sealed)),
        }


def _require_keys(known: Known) -> None:
    if known.is_shredded:
        raise errors.KeyShredded
