"""Tenants as the ingress knows them: a second old at most, and never what decides. Who asks is the token's tenant."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from dataflows.tenancy.domain import tenant
from ingress.tenancy.leased_keys import LeasedKeys
from schemas import errors
from schemas.crypto.sealing import SealBroken
from schemas.tenancy import limits
from schemas.tenancy.rendering import tenant_document
from sinks.tenancy import seals
from sinks.tenancy.seals import TenantKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingress.http.store import Store
    from ingress.identity.caller import Caller
    from ingress.tenancy.safe_mode import SafeMode
    from sinks.tenancy.root_keys import RootKeys
    from sinks.tenancy.seals import Purpose

UNKNOWN: Final = "unknown"
_FIRST_KEY: Final = 1  # every tenant is made with it, and no row of a key is removed while it lives
_READABLE: Final = frozenset({"active", "offboarding", "exported"})


class Tenant(tenant.Tenant, frozen=True, kw_only=True):
    """One row of ``tenant`` with its placement, as of a moment."""

    region: str
    mode: str
    shard_or_database: str

    @property
    def serves_reads(self) -> bool:
        """Whether its members may read."""
        return self.state in _READABLE or (self.state == "suspended" and self.suspension == "read_only")


class WrappedKey(Struct, frozen=True):
    """One version of a tenant's key."""

    key_version: int
    root_key_id: str
    wrapped: bytes | None
    state: str
    certificate_id: str | None


class DualTarget(Struct, frozen=True):
    """Where a tenant's rows will be, when a move that verifies them is committed."""

    migration_id: str
    placement_id: str
    mode: str
    shard_or_database: str


class Known(Struct, frozen=True):
    """A tenant, its keys, and when that was read."""

    tenant: Tenant
    keys: tuple[WrappedKey, ...]
    read_at: float
    lease: int | None  # under which it was read: without it, and under another one, it opens nothing
    dual_target: DualTarget | None = None
    opened: dict[int, TenantKey] = field(default_factory=dict)  # keys in the clear, no longer than this is kept

    def __repr__(self) -> str:
        return f"Known({self.tenant.tenant_id!r})"

    @property
    def shred_certificate_id(self) -> str | None:
        """The certificate of the destruction of its keys, when there is one."""
        return next((key.certificate_id for key in self.keys if key.certificate_id), None)

    @property
    def is_shredded(self) -> bool:
        """Whether its keys were destroyed."""
        return bool(self.keys) and all(key.state == "destroyed" for key in self.keys)


class Tenants:
    """Finds tenants and their keys, which it opens under a lease alone. One per process."""

    def __init__(
        self, store: Store, audited_store: Store, root_keys: RootKeys, safe_mode: SafeMode, instance: int = 0
    ) -> None:
        self._store = store
        self._audited_store = audited_store
        self._safe_mode = safe_mode
        self._root_keys = root_keys
        self._known: OrderedDict[str, Known] = OrderedDict()
        self.lease = LeasedKeys(audited_store, instance, self._known.clear)

    async def find(self, tenant_id: str, *, fresh: bool = False) -> Known | None:
        """The tenant, as it was at most a second ago; None when there is none. Raises Unavailable."""
        lease = await self.lease.term()
        known = self._known.get(tenant_id)
        if not fresh and known is not None and known.lease == lease and _is_young(known):
            return known
        read_at = time.monotonic()
        rows = await self._store.records("tenants_by_id", {"tenant_id": tenant_id})
        if not rows:
            self._known.pop(tenant_id, None)
            return None
        keys = [WrappedKey(*row) for row in await self._store.rows("tenant_keys", {"tenant_id": tenant_id})]
        targets = await self._store.rows("tenant_dual_target", {"tenant_id": tenant_id})
        target = DualTarget(*targets[0]) if targets else None
        found = Known(Tenant(**rows[0]), tuple(keys), read_at, lease, target)
        self._known[tenant_id] = found
        self._known.move_to_end(tenant_id)
        if len(self._known) > limits.TENANTS_CACHED_MAX:
            self._known.popitem(last=False)
        return found

    async def get(self, tenant_id: str, *, fresh: bool = False) -> Known:
        """As ``find``. Raises NotFound."""
        found = await self.find(tenant_id, fresh=fresh)
        if found is None:
            raise errors.NotFound
        return found

    async def keys_shown(self, tenant_id: str) -> Sequence[Sequence[Any]]:
        """The versions of a tenant's key, each with how far its rows are sealed anew. Raises Unavailable."""
        return await self._store.rows("tenant_keys_shown", {"tenant_id": tenant_id})

    async def stores(self) -> Sequence[Sequence[Any]]:
        """The stores of all tenants' rows, with what each holds and may hold. Raises Unavailable."""
        return await self._store.rows("tenant_stores", {})

    async def stand(self, store: str, stands: str, soak_s: int | None, person: str, note: str) -> str:
        """The database's word on how a store shall stand, audited with it. Raises Unavailable."""
        asked = {"store": store, "stands": stands, "soak_s": soak_s, "person": person, "note": note}
        return await self._audited_store.word("tenant_store_stand", asked)

    async def active(self, caller: Caller, *, writes: bool = False, shows: bool = True) -> Known:
        """The caller's own tenant. Raises Forbidden without one, TenantNotActive where it is not served.

        ``shows``: whether the call is answered with anything of a tenant's. Raises SafeMode then, while that is on.
        """
        if shows:
            await self._safe_mode.require_off(caller.tenant)
        return _served(await self.find(caller.tenant), writes=writes)

    async def decided_again(self, known: Known) -> Known:
        """The tenant as it is now, for a read that was under way as it changed. Raises TenantNotActive."""
        return _served(await self.find(known.tenant.tenant_id, fresh=True))

    def key(self, known: Known, key_version: int) -> TenantKey:
        """A key in the clear. Raises KeyShredded when it was destroyed, Unavailable when it or its root key is away."""
        tenant_id = known.tenant.tenant_id
        self.lease.require(tenant_id, known.lease)  # with each use: who stood still may hold what was shredded since
        if key_version in known.opened:
            return known.opened[key_version]
        row = next((key for key in known.keys if key.key_version == key_version), None)
        if row is None:  # younger than what is known here, or lost: only what is marked so was destroyed
            raise errors.Unavailable("This version of the tenant's key is not at hand.", tenant=tenant_id)
        if row.wrapped is None:
            raise errors.KeyShredded
        try:
            plain = self._root_keys.unwrap(tenant_id, key_version, row.root_key_id, bytes(row.wrapped))
        except SealBroken as error:  # of another root key under that name, or changed
            raise errors.Unavailable("The tenant's key does not open.", tenant=tenant_id) from error
        key = known.opened[key_version] = TenantKey(tenant_id, key_version, plain)
        return key

    def seal(self, known: Known, purpose: Purpose, place: str, plain: bytes) -> tuple[int, bytes]:
        """The plaintext under the tenant's active key, and that key's version. Raises KeyShredded, Unavailable."""
        if known.is_shredded:
            raise errors.KeyShredded
        active = next((key.key_version for key in known.keys if key.state == "active"), 0)
        return active, self.key(known, active).seal(purpose, place, plain)

    def keyed_hash(self, known: Known, plain: bytes) -> bytes:
        """A hash of what is secret, under the tenant's first key: a retry hashes alike after a rotation.

        Raises KeyShredded, and Unavailable without that key: under any other one a retry would be another request.
        """
        return self.key(known, _FIRST_KEY).keyed_hash(plain)

    def open(self, known: Known, purpose: Purpose, place: str, sealed: bytes) -> bytes:
        """The plaintext of what is sealed for that place of the tenant. Raises KeyShredded, Unavailable."""
        if known.is_shredded:
            raise errors.KeyShredded
        try:
            return self.key(known, seals.key_version_of(sealed)).unseal(purpose, place, sealed)
        except SealBroken as error:
            raise errors.Unavailable("What is stored does not open.", tenant=known.tenant.tenant_id) from error


def _is_young(known: Known) -> bool:
    return time.monotonic() - known.read_at < limits.TENANTS_CACHED_S


def _served(found: Known | None, *, writes: bool = False) -> Known:
    """Raises TenantNotActive where its members may not read, or write."""
    if found is None:
        raise errors.TenantNotActive(UNKNOWN)
    tenant = found.tenant
    if not tenant.serves_reads or (writes and tenant.state != "active"):
        raise errors.TenantNotActive(tenant.state)
    return found


def rendered(tenant: Tenant) -> dict[str, Any]:
    """A tenant as people see it."""
    return tenant_document({name: getattr(tenant, name) for name in Tenant.__struct_fields__})
