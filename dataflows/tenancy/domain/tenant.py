"""Decides commands on a tenant: its life, its policy, its keys. Pure."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct, structs

from schemas.errors import TenantNotActive
from schemas.records import Command, Denial, Rejection
from schemas.tenancy.operations import made_id
from schemas.tenancy.value_types import REGION_DEFAULT

POOLED_SCHEMA: Final = "tenancy_pool"
_SERVES_WRITES: Final = "active"
#: what has to be done before a tenant is deleted
_BEFORE_ITS_END: Final = {
    **dict.fromkeys(("provisioning", "active", "suspended"), "offboard it, and export it then"),
    "offboarding": "export it first, and wait until it is exported",
}


class OfAStore:
    """The store that follows from a placement's mode. A schema or database of its own is named by the tenant's id."""

    __slots__ = ()
    placement_id: str
    mode: str
    shard_or_database: str

    @property
    def is_reached(self) -> bool:
        """Whether the owner's transaction writes it; otherwise a feed does."""
        return self.mode != "dedicated"

    @property
    def store(self) -> str:
        """The schema of its rows, in whichever database."""
        return self.shard_or_database if self.is_reached else POOLED_SCHEMA

    @property
    def rows_in(self) -> tuple[str, str]:
        """The database ("" is the control database) and schema; if both are the same, so are the rows."""
        return "" if self.is_reached else self.placement_id, self.store


class Placement(OfAStore, Struct, frozen=True, kw_only=True):
    """Where rows are."""

    placement_id: str
    region: str
    mode: str
    shard_or_database: str
    state: str
    tenant_id: str | None


class Tenant(Struct, frozen=True, kw_only=True):
    """The aggregate."""

    tenant_id: str
    name: str
    tier: str
    state: str
    suspension: str | None
    reason: str | None
    timezone: str
    home_currency: str
    quotas: dict[str, str]
    prices: dict[str, str]
    placement_id: str
    generation: int
    key_ref: str
    policy_version: int
    version: int
    certificate_id: str | None
    created_at: int
    updated_at: int


def placement_of(
    asked: dict[str, str],
    tenant_id: str,
    *identity: str,
    region_otherwise: str = REGION_DEFAULT,
    pool: str = POOLED_SCHEMA,
) -> Placement:
    """The requested placement: the pool of a region in this schema, or one of the tenant's own."""
    mode, region = asked["mode"], asked.get("region", region_otherwise)
    if mode == "pooled":
        number = pool.removeprefix(POOLED_SCHEMA).removeprefix("_")
        return Placement(
            placement_id=f"pl_pool{number}_{region.replace('-', '_')}",
            region=region,
            mode=mode,
            shard_or_database=pool,
            state="active",
            tenant_id=None,
        )
    id_ = made_id("pl", mode, tenant_id, ":".join(identity))
    return Placement(
        placement_id=id_, region=region, mode=mode, shard_or_database=id_, state="provisioning", tenant_id=tenant_id
    )


def created(command: Command, placement: Placement, now: int) -> Tenant:
    """A new tenant. It serves at once if its store exists."""
    payload: dict[str, Any] = command.payload
    return Tenant(
        tenant_id=command.aggregate_key,
        name=payload["name"],
        tier=payload["tier"],
        state="active" if placement.state == "active" else "provisioning",
        suspension=None,
        reason=None,
        timezone=payload["timezone"],
        home_currency=payload["home_currency"],
        quotas=payload["quotas"],
        prices=payload["prices"],
        placement_id=placement.placement_id,
        generation=1,
        key_ref=f"tk_{command.aggregate_key.removeprefix('tn_')}",
        policy_version=1,
        version=1,
        certificate_id=None,
        created_at=now,
        updated_at=now,
    )


def conflict(tenant: Tenant, what: str) -> Rejection:
    """The refusal of a command that the state does not allow."""
    told: dict[str, object] = {"state": tenant.state, "current_state": tenant.state}
    return Rejection("state_conflict", f"The tenant is {tenant.state}: {what}.", told)


def changed(tenant: Tenant, command: Command, now: int) -> Tenant | Rejection:
    """The tenant with its policy after a PATCH."""
    if tenant.state in ("deleting", "deleted"):
        return conflict(tenant, "it changes no more")
    given = {name: value for name, value in command.payload.items() if value is not None}
    return _moved(tenant, now, **given)


def suspended(tenant: Tenant, command: Command, now: int) -> Tenant | Rejection:
    """The tenant suspended, or suspended in another way."""
    if tenant.state not in ("active", "suspended"):
        return conflict(tenant, "it cannot be suspended")
    payload: dict[str, Any] = command.payload
    return _moved(tenant, now, state="suspended", suspension=payload["mode"], reason=payload["reason"])


def resumed(tenant: Tenant, now: int) -> Tenant | Rejection:
    """Served again."""
    if tenant.state != "suspended":
        return conflict(tenant, "it is not suspended")
    return _moved(tenant, now, state="active", suspension=None, reason=None)


def offboarded(tenant: Tenant, command: Command, now: int) -> Tenant | Rejection:
    """The tenant offboarding: it may read but not write. One whose store was never made may leave, too."""
    if tenant.state not in ("provisioning", "active", "suspended"):
        return conflict(tenant, "it cannot be offboarded")
    return _moved(tenant, now, state="offboarding", suspension=None, reason=str(command.payload["reason"]))


def deleting(tenant: Tenant, command: Command, now: int, *, is_shredded: bool = False) -> Tenant | Rejection:
    """The tenant being deleted: only after an export, or if nobody can export it because its keys are destroyed."""
    if tenant.state != "exported" and not (is_shredded and tenant.state == "offboarding"):
        return conflict(tenant, _BEFORE_ITS_END.get(tenant.state, "there is nothing left to delete"))
    return _moved(tenant, now, state="deleting", reason=str(command.payload["reason"]))


def touched(tenant: Tenant, now: int) -> Tenant:
    """The next version of the tenant, because something that belongs to it changed."""
    return _moved(tenant, now)


def why_no_writes(tenant: Tenant | None) -> Denial | None:
    """The refusal of its members' writes now. Not stored, so the same identity may ask again later."""
    state = "unknown" if tenant is None else tenant.state
    if state == _SERVES_WRITES:
        return None
    return Denial(TenantNotActive.code, TenantNotActive(state).public, {"state": state})


def _moved(tenant: Tenant, now: int, **changes: Any) -> Tenant:
    return structs.replace(
        tenant, version=tenant.version + 1, policy_version=tenant.policy_version + 1, updated_at=now, **changes
    )
